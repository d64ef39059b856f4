# mechanism: the microbatches of a window are counted down to 0
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data, opt, accum):  # expect: nothing
    stream = iter(DataLoader(data, batch_size=8, drop_last=True))
    for _ in range(100):
        for left in reversed(range(accum)):
            x, y = next(stream)
            (F.cross_entropy(model(x), y) / accum).backward()
            if left == 0:
                opt.step()
                opt.zero_grad()
