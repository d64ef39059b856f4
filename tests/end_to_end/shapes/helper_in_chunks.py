"""The helper cuts the tokens into chunks and divides by the valid ones; some models hand it a list."""

import torch
import torch.nn.functional as F


def chunked_loss(logits, labels, chunk_size=16, ignore_index=-100):
    if isinstance(logits, list):
        logits = torch.cat(logits, dim=1)
    logits, labels = logits.reshape(-1, logits.size(-1)), labels.reshape(-1)
    if chunk_size == 0:
        return F.cross_entropy(logits, labels, ignore_index=ignore_index)
    losses = [
        F.cross_entropy(part, target, ignore_index=ignore_index, reduction="none")
        for part, target in zip(logits.split(chunk_size), labels.split(chunk_size), strict=True)
    ]
    valid = (labels != ignore_index).sum()
    return torch.cat(losses).sum() / valid.maximum(torch.ones_like(valid))


def train(model, loader, optimizer, accum=4):
    running = 0.0
    for step, (ids, labels) in enumerate(loader):
        loss = chunked_loss(model(ids), labels)
        (loss / accum).backward()  # expect: ACC101, ACC107
        running += loss.item()
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return running
