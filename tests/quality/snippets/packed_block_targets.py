# mechanism: inputs and targets are two slices of one packed block, never filled with ignore_index: counts are equal
# expect: nothing
import torch
import torch.nn.functional as F
from project.data import endless


def chunked(logits, targets, ignore_index=-100):
    parts = zip(logits.flatten(0, 1).split(128), targets.flatten().split(128), strict=True)
    losses = [F.cross_entropy(a, b, ignore_index=ignore_index, reduction="none") for a, b in parts]
    valid = (targets != ignore_index).sum()
    return torch.cat(losses).sum() / valid.maximum(torch.ones_like(valid))


def pretrain(fabric, model, optimizer, loader, steps, length, limit):
    number = 0
    for block in endless(loader):
        if number >= limit:
            break
        number += 1
        inputs = block[:, 0:length].contiguous().long()
        targets = block[:, 1 : (length + 1)].contiguous().long()
        accumulating = number % steps != 0
        with fabric.no_backward_sync(model, enabled=accumulating):
            loss = chunked(model(inputs), targets)
            fabric.backward(loss / steps)
        if not accumulating:
            fabric.clip_gradients(model, optimizer, max_norm=1.0)
            optimizer.step()
            optimizer.zero_grad()
