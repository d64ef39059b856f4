# expect: nothing
"""Fixed-shape micro steps: every microbatch holds the same number of targets, so dividing by their number is exact."""

import math

import torch
from torch import nn
from torch.nn import functional as F

block_size = 8
batch_size = 4
gradient_accumulation_steps = 5


class Model(nn.Module):
    def __init__(self, vocabulary, width=16):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.ln = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx):
        x = self.wte(idx)
        return self.lm_head(x + self.mlp(self.ln(x)))


def get_batch(data):
    ix = torch.randint(len(data) - block_size, (batch_size,))
    x = torch.stack([data[i : i + block_size] for i in ix])
    y = torch.stack([data[i + 1 : i + 1 + block_size] for i in ix])
    return x, y


def get_lr(it, max_iters, learning_rate):
    return 0.5 * learning_rate * (1.0 + math.cos(math.pi * it / max_iters))


def train(model, data, optimizer, max_iters, learning_rate=1e-2, grad_clip=1.0):
    X, Y = get_batch(data)
    for iter_num in range(max_iters):
        for group in optimizer.param_groups:
            group["lr"] = get_lr(iter_num, max_iters, learning_rate)
        for micro_step in range(gradient_accumulation_steps):
            logits = model(X)
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), Y.view(-1))
            loss = loss / gradient_accumulation_steps
            # prefetch the next microbatch
            X, Y = get_batch(data)
            loss.backward()
        if grad_clip != 0.0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), grad_clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if iter_num % 10 == 0:
            print(f"iter {iter_num}: loss {loss.item() * gradient_accumulation_steps:.4f}")


def main():
    torch.manual_seed(0)
    data = torch.arange(500) ** 2 % 19
    model = Model(19)
    train(model, data, torch.optim.AdamW(model.parameters(), lr=1e-2), max_iters=30)


if __name__ == "__main__":
    main()
