# mechanism: mini-batches of equal size are drawn from a permutation, the last window of the epoch is short
import torch
import torch.nn.functional as F


def epoch(model, optimizer, x, y, size, accum):
    order = torch.randperm(len(x))
    batches = order[: len(x) // size * size].view(-1, size)
    number = len(batches)
    for i in range(number):
        idx = batches[i]
        loss = F.mse_loss(model(x[idx]), y[idx]) / accum
        loss.backward()  # expect: ACC107
        if (i + 1) % accum == 0 or i == number - 1:
            optimizer.step()
            optimizer.zero_grad()
