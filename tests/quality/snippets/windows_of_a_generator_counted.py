# mechanism: a generator yields lists of microbatches; their targets are counted first
import torch.nn.functional as F
from torch.utils.data import DataLoader


def windows(loader, size):
    group = []
    for batch in loader:
        group.append(batch)
        if len(group) == size:
            yield group
            group = []
    if group:
        yield group


def train(model, data, opt, accum):  # expect: nothing
    loader = DataLoader(data, batch_size=8)
    for group in windows(loader, accum):
        total = sum(int((y != 0).sum()) for _, y in group)
        for x, y in group:
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=0, reduction="sum")
            (loss / max(total, 1)).backward()
        opt.step()
        opt.zero_grad()
