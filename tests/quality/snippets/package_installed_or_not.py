# mechanism: whether a package is installed is an open question inside a loop as well: the usual path is read
import importlib.util

import torch
from torch.nn import functional as F


def has_partitions():
    return importlib.util.find_spec("partitioned_models") is not None


def step_on_parts(model, batch, steps):
    from partitioned_models import forward_backward

    return forward_backward(model, batch, steps)


class Trainer:
    def __init__(self, model, args):
        self.model, self.args = model, args
        self.optimizer = torch.optim.AdamW(model.parameters())

    def one(self, batch):
        if has_partitions():
            return step_on_parts(self.model, batch, self.args.steps).mean()
        loss = F.cross_entropy(self.model(batch["x"]), batch["y"], ignore_index=-100)
        (loss / self.args.steps).backward()  # expect: ACC101
        return loss.detach()

    def fit(self, loader):
        for i, batch in enumerate(loader):
            self.one(batch)
            if (i + 1) % self.args.steps == 0:  # expect: ACC304
                self.optimizer.step()
                self.optimizer.zero_grad()

    def one_right(self, batch, count):
        if has_partitions():
            return step_on_parts(self.model, batch, self.args.steps).mean()
        loss = F.cross_entropy(self.model(batch["x"]), batch["y"], ignore_index=-100, reduction="sum")
        (loss / count).backward()
        return loss.detach()

    def fit_right(self, windows):
        for window in windows:
            count = sum((batch["y"] != -100).sum() for batch in window)
            for batch in window:
                self.one_right(batch, count)
            self.optimizer.step()
            self.optimizer.zero_grad()
