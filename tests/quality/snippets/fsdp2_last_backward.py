# mechanism: FSDP2's `set_is_last_backward` moves no gradient; the synchronisation is judged by its own switch
import torch
from torch.distributed.fsdp import fully_shard
from torch.nn import functional as F


def train_right(net, loader, steps):
    model = fully_shard(net)
    optimizer = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % steps == 0 or i + 1 == len(loader)
        model.set_is_last_backward(last)
        model.set_requires_gradient_sync(last)
        F.mse_loss(model(x), y, reduction="sum").backward()
        if last:
            optimizer.step()
            optimizer.zero_grad()


def train_late(net, loader, steps):
    model = fully_shard(net)
    optimizer = torch.optim.AdamW(model.parameters())
    for i, (x, y) in enumerate(loader):
        last = (i + 1) % steps == 0
        model.set_is_last_backward(last)
        model.set_requires_gradient_sync(i % steps == 0)  # expect: ACC308
        F.mse_loss(model(x), y, reduction="sum").backward()
        if last:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()
