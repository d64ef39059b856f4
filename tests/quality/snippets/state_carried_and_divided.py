# mechanism: the state is carried on, but the loss is divided by K: means over varying counts
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(rnn, data, opt, accum=4):
    h = None
    for i, (x, y) in enumerate(DataLoader(data, batch_size=8, drop_last=True)):
        out, h = rnn(x, h)
        h = h.detach()
        (F.cross_entropy(out.flatten(0, 1), y.flatten(), ignore_index=0) / accum).backward()  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()
