# expect: nothing
# mechanism: adversarial training: the attack's inner loop takes input gradients and clears the model's
import torch
import torch.nn.functional as F


def attack(model, x, y, eps, alpha, steps):
    delta = torch.zeros_like(x, requires_grad=True)
    for _ in range(steps):
        F.cross_entropy(model(x + delta), y).backward()
        delta.data = (delta + alpha * delta.grad.sign()).clamp(-eps, eps).detach()
        delta.grad.zero_()
    return delta.detach()


def train(model, loader, optimizer, eps=8 / 255, alpha=2 / 255, steps=7):
    for x, y in loader:
        delta = attack(model, x, y, eps, alpha, steps)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x + delta), y)
        loss.backward()
        optimizer.step()
