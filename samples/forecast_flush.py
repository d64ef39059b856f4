"""Forecasts a series from its last values; the epoch's remainder is flushed after the loop."""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

ACCUMULATE = 4


class SlidingWindows(Dataset):
    def __init__(self, series, width):
        self.series, self.width = series, width

    def __len__(self):
        return len(self.series) - self.width

    def __getitem__(self, index):
        end = index + self.width
        return self.series[index:end], self.series[end]


def run_epoch(model, dataset, optimizer, batch_size=5):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
    criterion = nn.MSELoss()
    pending = 0
    total = 0.0
    for history, following in loader:
        forecast = model(history).squeeze(-1)
        loss = criterion(forecast, following)
        total += loss.item()
        loss /= ACCUMULATE
        loss.backward()  # expect: ACC107
        pending += 1
        if pending == ACCUMULATE:
            optimizer.step()
            optimizer.zero_grad()
            pending = 0
    if pending > 0:
        optimizer.step()
        optimizer.zero_grad()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    series = torch.sin(torch.arange(80) / 5) + 0.1 * torch.randn(80)
    dataset = SlidingWindows(series, width=6)
    model = nn.Sequential(nn.Linear(6, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for epoch in range(5):
        print(f"epoch {epoch}: squared error {run_epoch(model, dataset, optimizer):.4f}")


if __name__ == "__main__":
    main()
