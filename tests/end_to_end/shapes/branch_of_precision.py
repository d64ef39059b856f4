"""The loss is computed in half precision or not, and divided where there is something to accumulate."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, steps=4, half=False):
    for number, (ids, labels) in enumerate(loader, 1):
        if half:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                logits = model(ids)
                loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        else:
            logits = model(ids)
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        if steps > 1:
            loss = loss / steps
        loss.backward()  # expect: ACC101, ACC107
        if number % steps == 0 or number == len(loader):
            optimizer.step()
            optimizer.zero_grad()
