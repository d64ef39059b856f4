"""Classifies noisy clusters; the number of examples is no multiple of the batch size."""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def train_epochs(model, dataset, optimizer, epochs=2, batch_size=8, accumulation_steps=3):
    loader = DataLoader(dataset, batch_size=batch_size, shuffle=True)
    criterion = nn.CrossEntropyLoss()
    n_batches = len(loader)
    correct = 0
    for _ in range(epochs):
        model.train()
        correct = 0
        for index, (features, labels) in enumerate(loader):
            first = index // accumulation_steps * accumulation_steps
            window = min(accumulation_steps, n_batches - first)
            scores = model(features)
            correct += int((scores.argmax(1) == labels).sum())
            loss = criterion(scores, labels)
            (loss / window).backward()  # expect: ACC102
            if (index + 1) % accumulation_steps == 0 or index + 1 == n_batches:
                optimizer.step()
                optimizer.zero_grad()
    return correct / len(dataset)


def main():
    torch.manual_seed(0)
    centres = 2 * torch.randn(4, 5)
    labels = torch.randint(0, 4, (67,))
    dataset = TensorDataset(centres[labels] + torch.randn(67, 5), labels)
    model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4))
    accuracy = train_epochs(model, dataset, torch.optim.SGD(model.parameters(), lr=0.2), epochs=8)
    print(f"training accuracy {accuracy:.2f}")


if __name__ == "__main__":
    main()
