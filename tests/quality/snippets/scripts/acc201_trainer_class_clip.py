# mechanism: the backward method clips too, so every microbatch of the window is clipped
import torch
from torch import nn


class Trainer:
    def __init__(self, model, batches, accum=4, clip=1.0):
        self.model, self.batches = model, batches
        self.accum, self.clip = accum, clip
        self.optimizer = torch.optim.Adam(model.parameters())

    def sample(self):
        rows = torch.randint(0, len(self.batches), (16,))
        return self.batches[rows]

    def backward(self, loss):
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)  # expect: ACC201

    def update(self):
        self.optimizer.zero_grad()
        for _ in range(self.accum):
            x = self.sample()
            loss = nn.functional.mse_loss(self.model(x), x) / self.accum
            self.backward(loss)
        self.optimizer.step()
