# mechanism: batches from an iterator that was handed in, nothing says how many targets they hold
import torch.nn.functional as F


def update(model, optimizer, batches, accum):
    optimizer.zero_grad()
    for _ in range(accum):
        x, y = next(batches)
        loss = F.cross_entropy(model(x), y) / accum
        loss.backward()  # expect-optin: ACC404
    optimizer.step()
