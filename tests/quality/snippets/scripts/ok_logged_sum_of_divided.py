# expect: nothing
# mechanism: the divided losses of the window are added up, which is their mean
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, accum, updates):
    for update in range(updates):
        shown = 0.0
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            loss = F.mse_loss(model(x), x) / accum
            shown += loss.detach()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(f"{update}: {shown.item():.4f}")
