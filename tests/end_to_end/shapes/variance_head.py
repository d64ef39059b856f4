"""A regression with a learned variance."""

import torch
from torch import nn


class Regression:
    def __init__(self, net, lr=0.05, accum=4):
        self.net, self.accum = net, accum
        self.opt = torch.optim.SGD(net.parameters(), lr=lr)
        self.loss_fn = nn.GaussianNLLLoss()

    def epoch(self, loader):
        for i, (x, y) in enumerate(loader):
            mean, raw = self.net(x).unbind(-1)
            loss = self.loss_fn(mean, y, nn.functional.softplus(raw) + 1e-3)
            (loss / self.accum).backward()  # expect: ACC102, ACC107
            if (i + 1) % self.accum == 0 or i + 1 == len(loader):
                self.opt.step()
                self.opt.zero_grad()
