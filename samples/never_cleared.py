"""Fits a polynomial with a hand-made counter; the finished window's gradients are never cleared."""

import torch
from torch import nn

DEGREE = 4


def powers(x):
    return torch.stack([x**d for d in range(1, DEGREE + 1)], dim=-1)


def train(model, x, y, optimizer, updates, accumulation_steps=3, batch_size=10):
    seen = 0
    done = 0
    losses = []
    window_loss = 0.0
    while done < updates:
        rows = torch.randint(0, x.size(0), (batch_size,))
        prediction = model(powers(x[rows])).squeeze(-1)
        loss = nn.functional.mse_loss(prediction, y[rows]) / accumulation_steps
        loss.backward()
        window_loss += loss.item()
        seen += 1
        if seen == accumulation_steps:
            optimizer.step()  # expect: ACC303
            losses.append(window_loss)
            window_loss = 0.0
            seen = 0
            done += 1
    return losses


def main():
    torch.manual_seed(0)
    x = torch.linspace(-1, 1, 60)
    y = x**3 - 0.5 * x + 0.05 * torch.randn(60)
    model = nn.Sequential(nn.Linear(DEGREE, 8), nn.Tanh(), nn.Linear(8, 1))
    losses = train(model, x, y, torch.optim.SGD(model.parameters(), lr=0.01), updates=60)
    print(f"loss {losses[0]:.4f} -> {losses[-1]:.4f}")


if __name__ == "__main__":
    main()
