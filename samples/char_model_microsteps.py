"""Predicts the next character; every update draws several microbatches of one fixed shape."""

import torch
import torch.nn.functional as F
from torch import nn

TEXT = "the weights stay frozen during the window, sums add, one division by the global count, one clip, one step. " * 4
BLOCK_SIZE = 8
BATCH_SIZE = 4


class BigramMixer(nn.Module):
    def __init__(self, vocabulary, width=24):
        super().__init__()
        self.token = nn.Embedding(vocabulary, width)
        self.position = nn.Embedding(BLOCK_SIZE, width)
        self.head = nn.Sequential(nn.Tanh(), nn.Linear(width, vocabulary))

    def forward(self, tokens):
        return self.head(self.token(tokens) + self.position.weight[: tokens.size(1)])


def get_batch(data):
    starts = torch.randint(len(data) - BLOCK_SIZE - 1, (BATCH_SIZE,))
    x = torch.stack([data[s : s + BLOCK_SIZE] for s in starts])
    y = torch.stack([data[s + 1 : s + BLOCK_SIZE + 1] for s in starts])
    return x, y


def train(model, data, optimizer, updates, micro_steps=5, grad_clip=1.0, log_every=10):
    for update in range(updates):
        for micro_step in range(micro_steps):
            x, y = get_batch(data)
            logits = model(x)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), y.view(-1))
            loss.backward()  # expect: ACC103
        if grad_clip > 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if update % log_every == 0:
            print(f"update {update}: loss {loss.item():.3f}")


def main():
    torch.manual_seed(0)
    characters = sorted(set(TEXT))
    data = torch.tensor([characters.index(c) for c in TEXT])
    model = BigramMixer(len(characters))
    train(model, data, torch.optim.AdamW(model.parameters(), lr=1e-2), updates=40)


if __name__ == "__main__":
    main()
