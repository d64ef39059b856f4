"""The method of one microbatch holds the boundary."""

import torch
from torch import nn


class Learner:
    def __init__(self, model, optimizer, n_acc=4):
        self.model = model
        self.optimizer = optimizer
        self.n_acc = n_acc

    def one_batch(self, i, xb, yb, last):
        preds = self.model(xb).squeeze(-1)
        loss = nn.functional.mse_loss(preds, yb) / self.n_acc
        loss.backward()  # expect: ACC102, ACC107
        if (i + 1) % self.n_acc == 0 or last:
            self.optimizer.step()
            self.optimizer.zero_grad()

    def fit(self, dataset, epochs):
        for _ in range(epochs):
            loader = torch.utils.data.DataLoader(dataset, batch_size=4)
            for i, (xb, yb) in enumerate(loader):
                self.one_batch(i, xb, yb, i == len(loader) - 1)
