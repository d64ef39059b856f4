# mechanism: the step was indented into the loop over microbatches
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, updates, accum=8, rows=4):
    for _ in range(updates):
        optimizer.zero_grad()
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (rows,))]
            loss = F.mse_loss(model(x), x) / accum
            loss.backward()
            optimizer.step()  # expect: ACC301
