# expect: nothing
# mechanism: windows by islice, the loss is a sum over the window's whole count
from itertools import islice

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, k):
    it = iter(loader)
    while True:
        window = list(islice(it, k))
        if not window:
            return
        total = sum((labels != -100).sum().item() for _, labels in window)
        optimizer.zero_grad()
        for ids, labels in window:
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            (loss / max(total, 1)).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
