"""The helper chooses between two spellings of the same loss."""

import torch.nn.functional as F


def compute_loss(logits, labels, smoothing):
    if smoothing > 0:
        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100, label_smoothing=smoothing)
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def train(model, loader, optimizer, smoothing=0.0, accum=4):
    for step, (ids, labels) in enumerate(loader):
        loss = compute_loss(model(ids), labels, smoothing)
        loss = loss / accum
        loss.backward()  # expect: ACC101, ACC107
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
