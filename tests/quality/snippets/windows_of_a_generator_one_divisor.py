# mechanism: a generator yields lists of microbatches, the last one shorter: the divisor stays
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


def train(model, data, opt, accum):
    loader = DataLoader(data, batch_size=8, drop_last=True)
    for group in windows(loader, accum):
        for x, y in group:
            (F.cross_entropy(model(x), y) / accum).backward()  # expect: ACC107
        opt.step()
        opt.zero_grad()
