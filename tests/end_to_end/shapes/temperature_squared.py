"""Distillation from a teacher, its divergence scaled by the square of the temperature."""

import torch
import torch.nn.functional as F


def distill(student, teacher, loader, optimizer, accum=4, temperature=2.0):
    for step, (x, _) in enumerate(loader):
        with torch.no_grad():
            soft = F.softmax(teacher(x) / temperature, dim=-1)
        loss = F.kl_div(F.log_softmax(student(x) / temperature, dim=-1), soft, reduction="batchmean") * temperature**2
        loss = loss / accum
        loss.backward()  # expect: ACC102, ACC107
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
