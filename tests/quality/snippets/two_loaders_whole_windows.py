# mechanism: two loaders, the second one for ever, cut to whole windows
import itertools
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, labelled, unlabelled, opt, accum):  # expect: nothing
    la = DataLoader(labelled, batch_size=8, drop_last=True)
    un = DataLoader(unlabelled, batch_size=32, drop_last=True)
    n = len(la) // accum * accum
    for i, ((x, y), u) in enumerate(itertools.islice(zip(la, itertools.cycle(un)), n)):
        loss = F.cross_entropy(model(x), y) + F.mse_loss(model(u), u)
        (loss / accum).backward()
        if (i + 1) % accum == 0:
            opt.step()
            opt.zero_grad()
