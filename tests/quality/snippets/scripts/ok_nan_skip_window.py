# expect: nothing
# mechanism: a window with a gradient that is not finite is thrown away whole, on purpose
import torch
import torch.nn.functional as F


def train(model, bank, optimizer, updates, accum):
    for update in range(updates):
        optimizer.zero_grad()
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            (F.mse_loss(model(x), x) / accum).backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if not torch.isfinite(norm):
            print("skipped", update)
            optimizer.zero_grad()
            continue
        optimizer.step()
