# expect: nothing
# mechanism: Reptile's inner loop steps a copy, the outer update moves the weights by hand
import copy

import torch
import torch.nn.functional as F


def reptile(model, tasks, inner_steps=5, inner_lr=0.02, outer_lr=0.1):
    for task in tasks:
        fast = copy.deepcopy(model)
        opt = torch.optim.SGD(fast.parameters(), lr=inner_lr)
        for _ in range(inner_steps):
            x, y = task.sample()
            opt.zero_grad()
            F.mse_loss(fast(x), y).backward()
            opt.step()
        with torch.no_grad():
            for p, q in zip(model.parameters(), fast.parameters()):
                p.add_(outer_lr * (q - p))
