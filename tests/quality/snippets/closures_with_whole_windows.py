# mechanism: a closure that holds a whole window is judged as a loop is
import torch
import torch.nn.functional as F


def lbfgs_right(model, windows):
    optimizer = torch.optim.LBFGS(model.parameters())
    for window in windows:

        def closure():
            optimizer.zero_grad()
            n = sum((y != -1).sum() for _, y in window)
            total = 0.0
            for x, y in window:
                loss = F.cross_entropy(model(x), y, ignore_index=-1, reduction="sum") / n
                loss.backward()
                total += loss.item()
            return total

        optimizer.step(closure)


def closure_wrong(model, windows, accum):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for window in windows:

        def closure():
            optimizer.zero_grad()
            for x, y in window:
                loss = F.cross_entropy(model(x), y, ignore_index=-1) / len(window)
                loss.backward()  # expect: ACC101
            return loss

        optimizer.step(closure)
