"""The loss is chosen in the loop, on a switch of the configuration."""

import torch
import torch.nn.functional as F


def train(model, loader, optimizer, accum=4, robust=False):
    optimizer.zero_grad()
    for step, (x, y) in enumerate(loader):
        prediction = model(x).squeeze(-1)
        if robust:
            loss = F.smooth_l1_loss(prediction, y)
        else:
            loss = F.mse_loss(prediction, y)
        loss = loss / accum
        loss.backward()  # expect: ACC102, ACC107
        if (step + 1) % accum == 0 or step + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
