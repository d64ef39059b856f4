# mechanism: a step that is compiled, bound to arguments or kept under another name does what it does
import functools

import torch
from torch.nn import functional as F


def forward_backward(model, batch, divisor, reduction="mean"):
    x, y = batch
    loss = F.cross_entropy(model(x), y, ignore_index=-1, reduction=reduction) / divisor
    loss.backward()  # expect: ACC101
    return loss.detach()


def equal_means(model, loader, optimizer, accum):
    step = torch.compile(functools.partial(forward_backward, model, divisor=accum))
    for i, batch in enumerate(loader):
        step(batch)
        if (i + 1) % accum == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()


def summed(model, batch, count):
    x, y = batch
    (F.cross_entropy(model(x), y, ignore_index=-1, reduction="sum") / count).backward()


class Right:
    def __init__(self, model, optimizer):
        self.optimizer = optimizer
        self.micro = torch.compile(functools.partial(summed, model))

    def fit(self, windows):
        for window in windows:
            count = sum((y != -1).sum() for _, y in window)
            for batch in window:
                self.micro(batch, count)
            self.optimizer.step()
            self.optimizer.zero_grad()
