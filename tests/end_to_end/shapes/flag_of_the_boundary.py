"""The boundary is a flag; the tail is dropped."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, scheduler, grad_accum=4):
    for step, batch in enumerate(loader):
        is_boundary = (step + 1) % grad_accum == 0
        logits = model(batch["input_ids"])
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), batch["labels"].view(-1)) / grad_accum
        loss.backward()  # expect: ACC102
        if is_boundary:  # expect: ACC304
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
