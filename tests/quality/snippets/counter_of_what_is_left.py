# mechanism: a counter of what is left starts anew each epoch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data, opt, accum, epochs):
    dl = DataLoader(data, batch_size=8, drop_last=True)
    for _ in range(epochs):
        left = accum
        for x, y in dl:
            (F.cross_entropy(model(x), y) / accum).backward()
            left -= 1
            if left == 0:  # expect: ACC304
                opt.step()
                opt.zero_grad()
                left = accum
