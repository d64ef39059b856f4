# mechanism: `p.grad = p.grad / n` at the boundary divides what was summed, by steps or by the count
from torch.nn import functional as F


def by_steps(model, loader, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x), y, ignore_index=-100).backward()  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            for p in model.parameters():
                if p.grad is not None:
                    p.grad = p.grad / accum
            optimizer.step()
            optimizer.zero_grad()


def by_steps_in_place(model, loader, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x), y, ignore_index=-100).backward()  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            for p in model.parameters():
                p.grad /= accum
            optimizer.step()
            optimizer.zero_grad()


def by_count(model, loader, optimizer, accum):
    count = 0
    for i, (x, y) in enumerate(loader):
        F.cross_entropy(model(x), y, ignore_index=-100, reduction="sum").backward()
        count += (y != -100).sum()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            for p in model.parameters():
                if p.grad is not None:
                    p.grad = p.grad / count
            optimizer.step()
            optimizer.zero_grad()
            count = 0
