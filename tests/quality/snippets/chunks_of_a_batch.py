# mechanism: two halves of one batch are cut alike and zipped: each pair is a microbatch of the window
from torch.nn import functional as F


def undivided(model, loader, optimizer, parts):
    for x, y in loader:
        for xs, ys in zip(x.chunk(parts), y.chunk(parts)):
            F.mse_loss(model(xs), ys).backward()  # expect: ACC103
        optimizer.step()
        optimizer.zero_grad()


def equal_means(model, loader, optimizer, parts):
    for x, y in loader:
        for xs, ys in zip(x.chunk(parts), y.chunk(parts)):
            (F.cross_entropy(model(xs), ys, ignore_index=-100) / parts).backward()  # expect: ACC101
        optimizer.step()
        optimizer.zero_grad()


def weighted(model, loader, optimizer, parts):
    for x, y in loader:
        count = (y != -100).sum()
        for xs, ys in zip(x.chunk(parts), y.chunk(parts)):
            (F.cross_entropy(model(xs), ys, ignore_index=-100, reduction="sum") / count).backward()
        optimizer.step()
        optimizer.zero_grad()
