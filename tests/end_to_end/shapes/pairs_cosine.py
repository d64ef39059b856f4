"""Sentence pairs with a cosine embedding loss."""

import torch
from torch import nn
from torch.utils.data import DataLoader


def train(encoder, pairs, optimizer, accum=4):
    criterion = nn.CosineEmbeddingLoss(margin=0.2)
    loader = DataLoader(pairs, batch_size=3, shuffle=True)
    for i, (left, right, label) in enumerate(loader):
        both = encoder(torch.cat([left, right]))
        a, b = both.chunk(2)
        loss = criterion(a, b, label) / accum
        loss.backward()  # expect: ACC102, ACC107
        if (i + 1) % accum == 0 or (i + 1) == len(loader):
            optimizer.step()
            optimizer.zero_grad()
