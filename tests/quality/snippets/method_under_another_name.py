# mechanism: the loop calls a name that a method or a partial function was given, not the function's own
import functools

import torch
import torch.nn.functional as F


def backpropagate(model, batch, scale):
    (F.mse_loss(model(batch[0]), batch[1]) * scale).backward()  # expect: ACC102


def train(model, loader, optimizer, steps):
    step = functools.partial(backpropagate, torch.compile(model), scale=1 / steps)
    for i, batch in enumerate(loader):
        step(batch)
        if (i + 1) % steps == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()


class Runner:
    def __init__(self, model, optimizer, steps, compiled):
        self.model, self.optimizer, self.steps = model, optimizer, steps
        self.run = torch.compile(self._run) if compiled else self._run

    def _run(self, batch):
        F.mse_loss(self.model(batch[0]), batch[1]).backward()  # expect: ACC103

    def fit(self, loader):
        for i, batch in enumerate(loader):
            self.run(batch)
            if (i + 1) % self.steps == 0:  # expect: ACC304
                self.optimizer.step()
                self.optimizer.zero_grad()
