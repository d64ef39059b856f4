# mechanism: gradients of single examples are collected and set by hand
import torch.nn.functional as F


def train(model, loader, opt, clip, sigma):  # expect: nothing
    for x, y in loader:
        total = [0 for _ in model.parameters()]
        for xi, yi in zip(x, y):
            model.zero_grad()
            F.cross_entropy(model(xi[None]), yi[None]).backward()
            for j, p in enumerate(model.parameters()):
                total[j] = total[j] + p.grad.clone()
        for p, t in zip(model.parameters(), total):
            p.grad = t / len(x)
        opt.step()
