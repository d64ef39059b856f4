# mechanism: the parts of a model are called one by one; its optimizer holds the parameters of all of them
from itertools import batched

import torch
import torch.nn.functional as F
from torch import nn


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Linear(4, 2)
        self.head = nn.Linear(2, 2)


def train(loader, args):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net.head(net.body(x)), y, ignore_index=-1) / args.accum
        loss.backward()  # expect: ACC101
        if (i + 1) % args.accum == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()


def train_right(loader, args):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for window in batched(loader, args.accum):
        count = sum((y != -1).sum() for _, y in window)
        for x, y in window:
            loss = F.cross_entropy(net.head(net.body(x)), y, ignore_index=-1, reduction="sum") / count
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train_two(loader, args):
    first, second = Net(), Net()
    optimizer = torch.optim.SGD(first.head.parameters(), lr=0.1)
    other = torch.optim.SGD(second.head.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(first.head(first.body(x)), y).backward()
        optimizer.step()
        optimizer.zero_grad()
        loss = F.cross_entropy(second.head(second.body(x)), y, ignore_index=-1) / args.accum
        loss.backward()  # expect: ACC101
        if (i + 1) % args.accum == 0:  # expect: ACC304
            other.step()
            other.zero_grad()
