"""Soft labels with the batchmean of KLDivLoss; the last batch is short."""

import torch
from torch import nn
from torch.utils.data import DataLoader


def train(model, dataset, optimizer, accum=4):
    loader = DataLoader(dataset, batch_size=4)
    criterion = nn.KLDivLoss(reduction="batchmean")
    for step, (x, soft) in enumerate(loader):
        log_probs = torch.log_softmax(model(x), dim=-1)
        loss = criterion(log_probs, soft)
        (loss / accum).backward()  # expect: ACC102, ACC107
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
