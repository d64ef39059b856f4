# mechanism: a class method is given its class, not its first argument: what it makes is an instance
import torch
import torch.nn.functional as F


class Optimizer:
    def __init__(self, optimizer, limit):
        self._optimizer, self.limit = optimizer, limit

    @classmethod
    def from_options(cls, model, options):
        return cls(torch.optim.SGD(model.parameters(), lr=options.lr), options.limit)

    def backward(self, loss):
        loss.backward()  # expect: ACC101

    def step(self):
        for group in self._optimizer.param_groups:
            torch.nn.utils.clip_grad_norm_(group["params"], self.limit)
        self._optimizer.step()

    def zero_grad(self):
        self._optimizer.zero_grad()


class Trainer:
    def __init__(self, model, optimizer, steps):
        self.model, self.optimizer, self.steps = model, optimizer, steps

    def train(self, loader):
        for i, (x, y) in enumerate(loader):
            self.optimizer.backward(F.cross_entropy(self.model(x), y, ignore_index=-1) / self.steps)
            if (i + 1) % self.steps == 0:  # expect: ACC304
                self.optimizer.step()
                self.optimizer.zero_grad()

    def train_counted(self, windows):
        for window in windows:
            count = sum((y != -1).sum() for _, y in window)
            for x, y in window:
                self.optimizer.backward(F.cross_entropy(self.model(x), y, ignore_index=-1, reduction="sum") / count)
            self.optimizer.step()
            self.optimizer.zero_grad()


def main(options, model, loader):
    optimizer = Optimizer.from_options(model, options)
    Trainer(model, optimizer, options.steps).train(loader)


def main_counted(options, model, windows):
    optimizer = Optimizer.from_options(model, options)
    Trainer(model, optimizer, options.steps).train_counted(windows)
