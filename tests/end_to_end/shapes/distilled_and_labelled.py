"""Distillation beside the labels, weighted by alpha."""

import torch
import torch.nn.functional as F


def distill(student, teacher, loader, optimizer, accum=4, alpha=0.5, temperature=2.0):
    for step, (x, y) in enumerate(loader):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, dim=-1)
        logits = student(x)
        kd = F.kl_div(F.log_softmax(logits / temperature, dim=-1), soft, reduction="batchmean")
        ce = F.cross_entropy(logits, y, ignore_index=-100)
        loss = alpha * temperature**2 * kd + (1 - alpha) * ce
        (loss / accum).backward()  # expect: ACC101, ACC102, ACC107
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
