# expect: nothing
# mechanism: the criterion sums, a helper divides once by the window's rows
import torch
from torch import nn


def normalise(model, n):
    with torch.no_grad():
        for p in model.parameters():
            if p.grad is not None:
                p.grad /= n


def train(model, loader, optimizer, accum):
    criterion = nn.MSELoss(reduction="sum")
    rows = 0
    for i, (x, y) in enumerate(loader, start=1):
        criterion(model(x), y).backward()
        rows += y.numel()
        if i % accum == 0 or i == len(loader):
            normalise(model, rows)
            optimizer.step()
            optimizer.zero_grad()
            rows = 0
