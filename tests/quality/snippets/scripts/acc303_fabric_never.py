# mechanism: Fabric clears nothing by itself
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(fabric: Fabric, net, opt, bank, accum, updates):
    for _ in range(updates):
        for m in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            with fabric.no_backward_sync(net, enabled=m < accum - 1):
                fabric.backward(F.mse_loss(net(x), x) / accum)
        fabric.clip_gradients(net, opt, max_norm=1.0)
        opt.step()  # expect: ACC303
