# expect: nothing
# mechanism: an asserted whole number of equal parts
import torch.nn.functional as F


def step(model, optimizer, x, y, parts):
    assert len(x) % parts == 0
    optimizer.zero_grad()
    size = len(x) // parts
    for i in range(parts):
        rows = slice(i * size, (i + 1) * size)
        (F.mse_loss(model(x[rows]), y[rows]) / parts).backward()
    optimizer.step()
