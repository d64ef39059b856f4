"""Learns to sort pairs; the step slid out of the boundary's branch, clearing and schedule stayed inside."""

import torch
from torch import nn


def draw_pairs(batch_size):
    pairs = torch.rand(batch_size, 2)
    return pairs, pairs.sort(dim=1).values


def train(model, optimizer, scheduler, sample, microbatches, accumulation_steps=4, batch_size=8):
    """`microbatches` is a multiple of `accumulation_steps`."""
    criterion = nn.L1Loss()
    mean_loss = 0.0
    for i in range(microbatches):
        x, y = sample(batch_size)
        loss = criterion(model(x), y)
        mean_loss += (loss.item() - mean_loss) / (i + 1)
        loss = loss / accumulation_steps
        loss.backward()
        optimizer.step()  # expect: ACC301
        if (i + 1) % accumulation_steps == 0:
            optimizer.zero_grad()
            scheduler.step()
    return mean_loss


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.98)
    for stage in range(4):
        print(f"stage {stage}: mean loss {train(model, optimizer, scheduler, draw_pairs, microbatches=80):.4f}")


if __name__ == "__main__":
    main()
