"""The average over the window is taken on the gradients, with mul_."""

import torch.nn.functional as F


def train(model, loader, optimizer, n_micro=4):
    optimizer.zero_grad()
    pending = 0
    for ids, labels in loader:
        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss.backward()  # expect: ACC101
        pending += 1
        if pending == n_micro:
            for group in optimizer.param_groups:
                for p in group["params"]:
                    p.grad.mul_(1.0 / n_micro)
            optimizer.step()
            optimizer.zero_grad()
            pending = 0
    if pending:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.grad.mul_(1.0 / pending)
        optimizer.step()
        optimizer.zero_grad()
