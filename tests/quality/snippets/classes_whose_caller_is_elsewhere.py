# mechanism: a class that counts its calls knows when to step, in one method or in three
import torch
import torch.nn.functional as F


class Learner:
    """Caller elsewhere, state kept in self."""

    def __init__(self, model, steps):
        self.model, self.steps = model, steps
        self.optimizer = torch.optim.Adam(model.parameters())
        self.accum = 0

    def step(self, x, y):
        loss = F.cross_entropy(self.model(x), y, ignore_index=-1) / self.steps
        loss.backward()  # expect: ACC101
        self.accum += 1
        if self.accum == self.steps:
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.accum = 0


class OffByOne:
    def __init__(self, model, steps):
        self.model, self.steps = model, steps
        self.optimizer = torch.optim.Adam(model.parameters())
        self.calls = 0

    def update(self, x, y):
        loss = F.mse_loss(self.model(x), y, reduction="sum")
        loss.backward()
        if self.calls % self.steps == 0:  # expect: ACC305
            self.optimizer.step()
            self.optimizer.zero_grad()
        self.calls += 1


class Right:
    def __init__(self, model, steps):
        self.model, self.steps = model, steps
        self.optimizer = torch.optim.Adam(model.parameters())
        self.accum = 0
        self.count = 0

    def step(self, x, y):
        F.cross_entropy(self.model(x), y, ignore_index=-1, reduction="sum").backward()
        self.count += (y != -1).sum()
        self.accum += 1
        if self.accum == self.steps:
            for p in self.model.parameters():
                p.grad.div_(self.count)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.accum = self.count = 0


class TwoMethods:
    def __init__(self, model, steps):
        self.model, self.steps = model, steps
        self.optimizer = torch.optim.Adam(model.parameters())
        self.k = 0

    def compute(self, x, y):
        loss = F.cross_entropy(self.model(x), y, ignore_index=-1)
        (loss / self.steps).backward()  # expect: ACC101
        self.k = (self.k + 1) % self.steps

    def update(self):
        if self.k:
            return
        self.optimizer.step()

    def zero_grad(self):
        if self.k:
            return
        self.optimizer.zero_grad()
