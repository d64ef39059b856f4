"""Regression on a noisy surface; a loss helper and the loop both divide by the number of microbatches."""

import torch
from torch import nn


def surface(points):
    return torch.sin(points[:, 0]) * torch.cos(points[:, 1])


def draw(batch_size):
    points = 3 * torch.randn(batch_size, 2)
    return points, surface(points)


def compute_loss(model, points, heights, accumulation_steps):
    """Loss of one microbatch, scaled for accumulation."""
    error = nn.functional.smooth_l1_loss(model(points).squeeze(-1), heights)
    return error / accumulation_steps


def train_step(model, optimizer, sample, accumulation_steps=4, batch_size=16):
    optimizer.zero_grad()
    reported = 0.0
    for _ in range(accumulation_steps):
        points, heights = sample(batch_size)
        loss = compute_loss(model, points, heights, accumulation_steps)
        reported += loss.item()
        loss = loss / accumulation_steps  # expect: ACC104
        loss.backward()
    optimizer.step()
    return reported


def main():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    for update in range(60):
        loss = train_step(model, optimizer, draw)
        if update % 20 == 0:
            print(f"update {update}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
