# expect: nothing
# mechanism: a penalty on the weights is divided by the steps with the loss, so it counts once
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, updates, accum, weight=1e-3):
    for _ in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            penalty = sum(p.pow(2).sum() for p in model.parameters())
            loss = F.mse_loss(model(x), x) + weight * penalty
            (loss / accum).backward()
        optimizer.step()
        optimizer.zero_grad()
