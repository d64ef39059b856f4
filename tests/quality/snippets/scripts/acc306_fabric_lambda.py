# mechanism: Fabric gates no scheduler
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(fabric: Fabric, net, optimizer, data, warmup, total, accum=2):
    lr = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warmup))
    for micro in range(total):
        x = data[torch.randint(0, len(data), (8,))]
        is_accumulating = (micro + 1) % accum != 0
        with fabric.no_backward_sync(net, enabled=is_accumulating):
            fabric.backward(F.mse_loss(net(x), x) / accum)
        lr.step()  # expect: ACC306
        if is_accumulating:
            continue
        optimizer.step()
        optimizer.zero_grad()
