# mechanism: `while` with `next` that starts the loader anew where it stops: each window is whole
from torch.nn import functional as F


def right(model, loader, optimizer, accum, total):
    batches, done = iter(loader), 0
    while done < total:
        for _ in range(accum):
            try:
                x, y = next(batches)
            except StopIteration:
                batches = iter(loader)
                x, y = next(batches)
            F.mse_loss(model(x), y, reduction="sum").backward()
        optimizer.step()
        optimizer.zero_grad()
        done += 1


def undivided(model, loader, optimizer, accum, total):
    batches, done = iter(loader), 0
    while done < total:
        for _ in range(accum):
            try:
                x, y = next(batches)
            except StopIteration:
                batches = iter(loader)
                x, y = next(batches)
            F.mse_loss(model(x), y).backward()  # expect: ACC103
        optimizer.step()
        optimizer.zero_grad()
        done += 1
