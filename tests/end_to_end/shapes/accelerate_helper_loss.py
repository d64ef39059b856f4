"""Accelerate, a helper for the loss, an unguarded clip."""

import torch.nn.functional as F
from accelerate import Accelerator


def token_loss(logits, labels):
    shifted = logits[:, :-1].reshape(-1, logits.size(-1))
    return F.cross_entropy(shifted, labels[:, 1:].reshape(-1), ignore_index=-100)


def main(model, optimizer, loader, accum=4):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            logits = model(batch["input_ids"])
            loss = token_loss(logits, batch["labels"])
            accelerator.backward(loss)  # expect: ACC101, ACC107
            accelerator.clip_grad_norm_(model.parameters(), 1.0)  # expect: ACC201
            optimizer.step()
            optimizer.zero_grad()
