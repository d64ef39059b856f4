# mechanism: fabric.clip_gradients stands before the test of the boundary
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(net, frames, actions, micro_steps, accum=4):
    fabric = Fabric(devices=1)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4)
    net, optimizer = fabric.setup(net, optimizer)
    for step in range(1, micro_steps + 1):
        pick = torch.randint(0, len(frames), (32,))
        syncing = step % accum == 0
        with fabric.no_backward_sync(net, enabled=not syncing):
            loss = F.l1_loss(net(frames[pick]), actions[pick])
            fabric.backward(loss / accum)
        fabric.clip_gradients(net, optimizer, clip_val=0.1)  # expect: ACC201
        if syncing:
            optimizer.step()
            optimizer.zero_grad()
