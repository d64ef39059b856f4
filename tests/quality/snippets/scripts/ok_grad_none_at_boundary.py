# expect: nothing
# mechanism: gradients set to None after the step, fixed shapes
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, updates, accum):
    for _ in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            (F.mse_loss(model(x), x) / accum).backward()
        optimizer.step()
        for p in model.parameters():
            p.grad = None
