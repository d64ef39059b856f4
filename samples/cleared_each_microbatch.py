"""Whole windows are drawn from a loader; gradients are cleared before every microbatch of them."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_epoch(model, dataset, optimizer, batch_size=4, accumulation_steps=4):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
    windows = len(loader) // accumulation_steps
    batches = iter(loader)
    model.train()
    total = 0.0
    for _ in range(windows):
        for _ in range(accumulation_steps):
            features, labels = next(batches)
            model.zero_grad(set_to_none=True)  # expect: ACC302
            loss = nn.functional.cross_entropy(model(features), labels) / accumulation_steps
            total += loss.item()
            loss.backward()
        optimizer.step()
    return total / windows


def main():
    torch.manual_seed(0)
    features = torch.randn(70, 4)
    labels = (features[:, 0] > 0).long() + 2 * (features[:, 1] > 0).long()
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3)
    for epoch in range(5):
        loss = train_epoch(model, TensorDataset(features, labels), optimizer)
        print(f"epoch {epoch}: loss {loss:.4f}")


if __name__ == "__main__":
    main()
