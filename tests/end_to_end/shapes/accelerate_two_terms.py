"""Accelerate and two losses over the same labels."""

import torch.nn.functional as F
from accelerate import Accelerator


def main(model, optimizer, loader, accum=4, weight=0.1):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for batch in loader:
        with accelerator.accumulate(model):
            logits, early = model(batch["input_ids"])
            labels = batch["labels"].flatten()
            main_loss = F.cross_entropy(logits.flatten(0, 1), labels, ignore_index=-100)
            early_loss = F.cross_entropy(early.flatten(0, 1), labels, ignore_index=-100)
            accelerator.backward(main_loss + weight * early_loss)  # expect: ACC101, ACC107
            optimizer.step()
            optimizer.zero_grad()
