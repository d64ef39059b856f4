# mechanism: a counter that goes on over epochs leaves nothing behind
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data, opt, accum, epochs):
    dl = DataLoader(data, batch_size=8, drop_last=True)
    count = 0
    for _ in range(epochs):  # expect: nothing
        for x, y in dl:
            (F.cross_entropy(model(x), y) / accum).backward()
            count += 1
            if count == accum:
                opt.step()
                opt.zero_grad()
                count = 0
