# expect: nothing
"""Deferred normalisation: sums are accumulated, the gradient is divided once by the window's count of targets."""

import torch
import torch.nn.functional as F
from torch import nn


class Tokens(nn.Module):
    def __init__(self, vocabulary=16, width=12):
        super().__init__()
        self.layers = nn.Sequential(nn.Embedding(vocabulary, width), nn.Tanh(), nn.Linear(width, vocabulary))

    def forward(self, tokens):
        return self.layers(tokens)


def train(model, loader, optimizer, epochs=1, accumulation_steps=4, max_norm=1.0):
    last = len(loader) - 1
    for _ in range(epochs):
        valid_targets = 0
        for step, (tokens, labels) in enumerate(loader):
            logits = model(tokens)
            loss = F.cross_entropy(logits.transpose(1, 2), labels, ignore_index=-100, reduction="sum")
            loss.backward()
            valid_targets += int((labels != -100).sum())
            if (step + 1) % accumulation_steps == 0 or step == last:
                for parameter in model.parameters():
                    if parameter.grad is not None:
                        parameter.grad.div_(max(valid_targets, 1))
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
                optimizer.step()
                optimizer.zero_grad()
                valid_targets = 0


def main():
    torch.manual_seed(0)
    loader = []
    for _ in range(10):
        tokens = torch.randint(0, 16, (3, 7))
        labels = (tokens * 5 + 1) % 16
        labels[torch.rand(3, 7) < torch.rand(())] = -100
        loader.append((tokens, labels))
    model = Tokens()
    train(model, loader, torch.optim.AdamW(model.parameters(), lr=2e-2), epochs=10)
    tokens = torch.arange(16).view(1, 16)
    print("learned", int((model(tokens).argmax(-1) == (tokens * 5 + 1) % 16).sum()), "of 16 successors")


if __name__ == "__main__":
    main()
