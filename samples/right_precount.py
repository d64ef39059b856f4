# expect: nothing
"""Pre-count: the window's microbatches are fetched first and share one denominator."""

from itertools import islice

import torch
from torch import nn


def windows(batches, size):
    stream = iter(batches)
    while window := list(islice(stream, size)):
        yield window


def train(model, batches, optimizer, accumulation_steps=3, max_norm=1.0):
    """`batches` holds (x, y, mask) of shapes [batch, features], [batch], [batch]."""
    for window in windows(batches, accumulation_steps):
        total = max(sum(int(mask.sum()) for _, _, mask in window), 1)
        for x, y, mask in window:
            error = nn.functional.huber_loss(model(x).squeeze(-1), y, reduction="none")
            ((error * mask).sum() / total).backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
        optimizer.step()
        optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    batches = []
    for _ in range(40):
        x = torch.randn(6, 3)
        batches.append((x, x.pow(2).sum(1), (torch.rand(6) < torch.rand(())).float()))
    model = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
    train(model, batches, torch.optim.SGD(model.parameters(), lr=0.1))
    x = torch.randn(200, 3)
    print(f"mean error {(model(x).squeeze(-1) - x.pow(2).sum(1)).abs().mean():.3f}")


if __name__ == "__main__":
    main()
