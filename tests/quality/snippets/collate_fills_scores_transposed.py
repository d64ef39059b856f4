# mechanism: a collate function fills targets with -100, and there is a target a position
import torch.nn as nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader


def collate(rows):
    x = pad_sequence([r[0] for r in rows], batch_first=True)
    y = pad_sequence([r[1] for r in rows], batch_first=True, padding_value=-100)
    return x, y


def padded(net, data, opt, n):
    dl = DataLoader(data, batch_size=4, drop_last=True, collate_fn=collate)
    ce = nn.CrossEntropyLoss()
    for i, (x, y) in enumerate(dl):
        (ce(net(x).transpose(1, 2), y) / n).backward()  # expect: ACC101
        if (i + 1) % n == 0:  # expect: ACC304
            opt.step()
            opt.zero_grad()
