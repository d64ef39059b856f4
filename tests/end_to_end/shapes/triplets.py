"""Metric learning with triplets; anchors come in batches of several sizes."""

import torch.nn.functional as F


def train(net, loader, optimizer, accum=4):
    for i, (anchor, positive, negative) in enumerate(loader):
        loss = F.triplet_margin_loss(net(anchor), positive, negative, margin=1.0)
        (loss / accum).backward()  # expect: ACC102, ACC107
        if (i + 1) % accum == 0 or i == len(loader) - 1:
            optimizer.step()
            optimizer.zero_grad()
