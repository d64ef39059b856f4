# mechanism: criterion from a config registry, whole windows by islice of the loader
import itertools

import torch

from lib.losses import make_criterion


def main(cfg, model, loader):
    criterion = make_criterion(cfg.loss)
    opt = torch.optim.SGD(model.parameters(), cfg.lr)
    windows = len(loader) // cfg.accum
    for _ in range(cfg.epochs):
        for i, (x, y) in enumerate(itertools.islice(loader, windows * cfg.accum), start=1):
            loss = criterion(model(x), y)
            loss = loss / cfg.accum
            loss.backward()  # expect: ACC102
            if not i % cfg.accum:
                opt.step()
                opt.zero_grad()
