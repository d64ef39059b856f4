# expect: nothing
# mechanism: weighted cross entropy, the divisor is the sum of the target weights of the window
import torch
import torch.nn.functional as F


def train(model, loader, optimizer, weight, accum):
    total = torch.zeros(())
    steps = len(loader)
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y, weight=weight, reduction="sum")
        loss.backward()
        total += weight[y].sum()
        if (i + 1) % accum == 0 or (i + 1) == steps:
            for p in model.parameters():
                p.grad /= total
            optimizer.step()
            optimizer.zero_grad()
            total = torch.zeros(())
