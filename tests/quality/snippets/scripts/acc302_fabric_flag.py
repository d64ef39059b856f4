# mechanism: clearing under the wrong test: on every microbatch that does not step
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(net, bank, accum, total):
    fabric = Fabric()
    opt = torch.optim.AdamW(net.parameters())
    net, opt = fabric.setup(net, opt)
    for i in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        accumulating = (i + 1) % accum != 0
        with fabric.no_backward_sync(net, enabled=accumulating):
            fabric.backward(F.mse_loss(net(x), x) / accum)
        if not accumulating:
            opt.step()
        opt.zero_grad()  # expect: ACC302
