# mechanism: `loss /= K` and once more inside the backward call
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, accum, updates):
    for _ in range(updates):
        optimizer.zero_grad()
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            loss = F.mse_loss(model(x), x)
            loss /= accum
            (loss / accum).backward()  # expect: ACC104
        optimizer.step()
