"""finetune.py with its last window used: one line differs."""

import torch.nn.functional as F
from finetune import IGNORED
from torch import nn


def finetune(model, loader, optimizer, accumulation_steps=2, max_norm=1.0):
    for step, (tokens, labels) in enumerate(loader):
        logits = model(tokens)
        loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=IGNORED)
        loss = loss / accumulation_steps
        loss.backward()
        if (step + 1) % accumulation_steps == 0 or step + 1 == len(loader):
            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()
