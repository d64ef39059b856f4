"""The criterion is a parameter; the only caller of the file makes it."""

import torch
import torch.nn as nn


def train_epoch(model, loader, criterion, optimizer, accumulation_steps):
    model.train()
    total_loss = 0.0
    for step, (inputs, targets) in enumerate(loader):
        outputs = model(inputs)
        loss = criterion(outputs.view(-1, outputs.size(-1)), targets.view(-1))
        total_loss += loss.item()
        loss = loss / accumulation_steps
        loss.backward()  # expect: ACC101, ACC107
        if (step + 1) % accumulation_steps == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return total_loss / len(loader)


def main(model, loader, epochs=2, lr=0.05, accumulation_steps=4):
    criterion = nn.CrossEntropyLoss(ignore_index=0)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    return [train_epoch(model, loader, criterion, optimizer, accumulation_steps) for _ in range(epochs)]
