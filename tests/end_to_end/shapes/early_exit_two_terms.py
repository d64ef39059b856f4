"""Two heads over the same labels: one shared denominator."""

import torch.nn.functional as F


def train(model, loader, optimizer, accum=4, weight=0.3):
    for i, (ids, labels) in enumerate(loader):
        logits, early = model(ids)
        targets = labels.view(-1)
        loss = F.cross_entropy(logits.flatten(0, 1), targets, ignore_index=-100)
        aux = F.cross_entropy(early.flatten(0, 1), targets, ignore_index=-100)
        loss = loss + weight * aux
        (loss / accum).backward()  # expect: ACC101, ACC107
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
