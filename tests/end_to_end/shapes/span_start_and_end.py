"""Extractive answers: the mean of a start and an end loss, whose targets may be ignored."""

import torch
from torch.nn import CrossEntropyLoss


def train(model, loader, optimizer, gradient_accumulation_steps=4):
    criterion = CrossEntropyLoss(ignore_index=-1)
    for step, (inputs, start, end) in enumerate(loader):
        start_logits, end_logits = model(inputs).split(1, dim=-1)
        start_loss = criterion(start_logits.squeeze(-1), start)
        end_loss = criterion(end_logits.squeeze(-1), end)
        loss = (start_loss + end_loss) / 2
        if gradient_accumulation_steps > 1:
            loss = loss / gradient_accumulation_steps
        loss.backward()  # expect: ACC101, ACC107
        if (step + 1) % gradient_accumulation_steps == 0 or step + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
