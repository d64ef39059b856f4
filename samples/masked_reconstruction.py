"""Reconstructs hidden sensor readings; the loss counts hidden readings only and is averaged by hand."""

from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Settings:
    epochs: int = 2
    accumulate: int = 3
    learning_rate: float = 0.05
    log: bool = False


def masked_mean(values, mask):
    return (values * mask).sum() / mask.sum()


def fit(model, batches, optimizer, settings):
    """`batches` is a list of (corrupted, original, mask), each [batch, sensors]; mask is 1 where a reading was hidden."""
    history = []
    optimizer.zero_grad()
    for epoch in range(settings.epochs):
        total = 0.0
        for number, (corrupted, original, mask) in enumerate(batches, start=1):
            restored = model(corrupted)
            loss = masked_mean((restored - original).square(), mask)
            total += loss.item()
            # the last window of an epoch may be short, so it has to step as well
            (loss / settings.accumulate).backward()  # expect: ACC101, ACC107
            if number % settings.accumulate == 0 or number == len(batches):
                optimizer.step()
                optimizer.zero_grad()
        history.append(total / len(batches))
        if settings.log:
            print(f"epoch {epoch}: reconstruction error {history[-1]:.4f}")
    return history


def make_batches(count, batch=4, sensors=6):
    batches = []
    for k in range(count):
        time = torch.rand(batch, 1) * 6
        original = torch.sin(time + torch.arange(sensors))
        # how much is hidden differs from recording to recording
        mask = (torch.rand(batch, sensors) < 0.1 + 0.8 * (k % 3) / 3).float()
        mask[0, 0] = 1.0
        batches.append((original * (1 - mask), original, mask))
    return batches


def main():
    torch.manual_seed(0)
    settings = Settings(log=True)
    model = nn.Sequential(nn.Linear(6, 24), nn.Tanh(), nn.Linear(24, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=settings.learning_rate)
    fit(model, make_batches(8), optimizer, settings)


if __name__ == "__main__":
    main()
