"""Fine-tunes a small language model on answers of different lengths. It trains, and it is wrong."""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

IGNORED = -100  # prompts and padding are not learnt


class Model(nn.Module):
    def __init__(self, words=50, width=16):
        super().__init__()
        self.embedding = nn.Embedding(words, width)
        self.hidden = nn.Linear(width, width)
        self.head = nn.Linear(width, words)

    def forward(self, tokens):
        return self.head(torch.tanh(self.hidden(self.embedding(tokens))))


def collate(rows):
    """Pad rows of (tokens, labels) to the longest."""
    tokens = nn.utils.rnn.pad_sequence([row[0] for row in rows], batch_first=True)
    labels = nn.utils.rnn.pad_sequence([row[1] for row in rows], batch_first=True, padding_value=IGNORED)
    return tokens, labels


def finetune(model, loader, optimizer, accumulation_steps=2, max_norm=1.0):
    for step, (tokens, labels) in enumerate(loader):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss = loss / accumulation_steps
        loss.backward()
        if (step + 1) % accumulation_steps == 0:
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()


def main(rows):
    model = Model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    finetune(model, DataLoader(rows, batch_size=2, shuffle=True, collate_fn=collate), optimizer)
