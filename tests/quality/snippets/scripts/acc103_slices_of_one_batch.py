# mechanism: one batch is cut into slices and every slice's mean is added undivided
import torch
import torch.nn.functional as F


def training_step(model, optimizer, x, y, micro=8):
    optimizer.zero_grad()
    for lo in range(0, x.size(0), micro):
        hi = lo + micro
        F.binary_cross_entropy_with_logits(model(x[lo:hi]), y[lo:hi]).backward()  # expect: ACC103
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
