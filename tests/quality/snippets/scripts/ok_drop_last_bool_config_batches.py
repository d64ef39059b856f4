# expect: nothing
# mechanism: drop_last=True and one target a row: a divisor of the real window length
import torch
from torch import nn
from torch.utils.data import DataLoader


class Runner:
    def __init__(self, net, data, batch, accum):
        self.net = net
        self.loader = DataLoader(data, batch_size=batch, shuffle=True, drop_last=True)
        self.accum = accum
        self.opt = torch.optim.SGD(net.parameters(), lr=0.1)
        self.loss = nn.MSELoss()

    def epoch(self):
        n = len(self.loader)
        for start, batch in enumerate(self.loader):
            x, y = batch
            first = start - start % self.accum
            size = min(self.accum, n - first)
            (self.loss(self.net(x), y) / size).backward()
            if start + 1 == first + size:
                self.opt.step()
                self.opt.zero_grad()
