# expect: nothing
# mechanism: slices of one batch weigh by their share of the rows
import torch
import torch.nn.functional as F


def step(model, optimizer, x, y, micro):
    optimizer.zero_grad()
    for xs, ys in zip(x.split(micro), y.split(micro)):
        loss = F.mse_loss(model(xs), ys) * (len(xs) / len(x))
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
