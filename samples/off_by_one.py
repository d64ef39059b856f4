"""Binary classification; the boundary fires on the first microbatch instead of the K-th."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train(model, dataset, optimizer, epochs=2, batch_size=5, accumulation_steps=3):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True, drop_last=True)
    criterion = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        for batch_idx, batch in enumerate(loader):
            inputs, targets = batch
            loss = criterion(model(inputs).squeeze(-1), targets)
            loss = loss / accumulation_steps
            loss.backward()
            if batch_idx % accumulation_steps == 0:  # expect: ACC305, ACC304
                optimizer.step()
                optimizer.zero_grad()


def main():
    torch.manual_seed(0)
    inputs = torch.randn(40, 2)
    targets = (inputs.norm(dim=1) < 1).float()
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    train(model, TensorDataset(inputs, targets), torch.optim.SGD(model.parameters(), lr=0.5), epochs=10)
    accuracy = ((model(inputs).squeeze(-1) > 0) == (targets > 0)).float().mean()
    print(f"training accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
