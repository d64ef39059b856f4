# mechanism: a scaler made anew for each microbatch scales by the same number: the window is judged as any other
import torch
from torch.nn import functional as F


def right(model, loader, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale(F.mse_loss(model(x), y, reduction="sum")).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def clipped_scaled(model, loader, optimizer, accum):
    for i, (x, y) in enumerate(loader):
        scaler = torch.amp.GradScaler("cuda")
        scaler.scale(F.mse_loss(model(x), y, reduction="sum")).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)  # expect: ACC202
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
