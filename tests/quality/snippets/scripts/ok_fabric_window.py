# expect: nothing
# mechanism: Fabric with a manual division, no_backward_sync on all but the last microbatch, fixed shapes
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(net, bank, updates, accum):
    fabric = Fabric(devices=2, strategy="ddp")
    fabric.launch()
    opt = torch.optim.AdamW(net.parameters())
    net, opt = fabric.setup(net, opt)
    for _ in range(updates):
        for i in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            with fabric.no_backward_sync(net, enabled=i != accum - 1):
                fabric.backward(F.mse_loss(net(x), x) / accum)
        fabric.clip_gradients(net, opt, max_norm=1.0)
        opt.step()
        opt.zero_grad()
