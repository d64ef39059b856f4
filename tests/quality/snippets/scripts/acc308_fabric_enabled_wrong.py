# mechanism: no_backward_sync is enabled on the microbatch before the step
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(fabric: Fabric, net, optimizer, data, total, accum):
    net, optimizer = fabric.setup(net, optimizer)
    for i in range(total):
        x = data[torch.randint(0, len(data), (8,))]
        with fabric.no_backward_sync(net, enabled=i % accum != 0):  # expect: ACC308
            fabric.backward(F.mse_loss(net(x), x) / accum)
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
