# mechanism: a literal K of 2: the loader is read with a number of batches that 2 does not divide
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, data, opt):
    dl = DataLoader(data, batch_size=8, drop_last=True)
    for i, (x, y) in enumerate(dl):
        (F.cross_entropy(model(x), y) / 2).backward()
        if (i + 1) % 2 == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()
