# mechanism: a loader for ever, left by a test; the boundary fires first on microbatch 0
from itertools import cycle
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data, opt, limit, accum=4):
    loader = DataLoader(data, batch_size=8, drop_last=True)
    for i, (x, y) in enumerate(cycle(loader)):
        (F.cross_entropy(model(x), y) / accum).backward()
        if i % accum == 0:  # expect: ACC305
            opt.step()
            opt.zero_grad()
        if i == limit:
            break
