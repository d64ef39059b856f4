# expect: nothing
# mechanism: the number of accumulation steps grows with training, each window uses its own
import torch
import torch.nn.functional as F


def schedule(update, warmup, most):
    return max(1, min(most, 1 + update * most // warmup))


def train(model, bank, optimizer, updates, warmup, most):
    for update in range(updates):
        steps = schedule(update, warmup, most)
        optimizer.zero_grad()
        for _ in range(steps):
            x = bank[torch.randint(0, len(bank), (16,))]
            (F.mse_loss(model(x), x) / steps).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
