# expect: nothing
# mechanism: the mean is multiplied by its own count and divided by the window's
import torch.nn.functional as F


def update(model, optimizer, window, pad=0):
    counts = [int((y != pad).sum()) for _, y in window]
    total = sum(counts)
    for (x, y), n in zip(window, counts):
        mean = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=pad)
        loss = mean * n / total
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
