# mechanism: a base trainer whose get_model only raises NotImplementedError: subclasses give it, the loop is reached
import torch
from torch import nn

from project.distil import Distilled


class BaseTrainer:
    def __init__(self, model, args):
        self.model, self.args = model, args

    def get_model(self, name):
        raise NotImplementedError("this task has no model of its own")

    def get_loader(self):
        raise NotImplementedError("no loader")

    def setup(self):
        weights = None
        if isinstance(weights, Distilled):
            self.model = self.get_model("distilled").student
        if not isinstance(self.model, nn.Module):
            self.model = self.get_model(self.model)
        self.loader = self.get_loader()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def train(self):
        self.setup()
        for _ in range(self.args.epochs):
            for index, (x, y) in enumerate(self.loader):
                loss = nn.functional.mse_loss(self.model(x), y)
                loss.backward()  # expect: ACC103
                if (index + 1) % self.args.steps == 0:  # expect: ACC304
                    self.optimizer.step()
                    self.optimizer.zero_grad()
