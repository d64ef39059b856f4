# mechanism: the class clears in a method that nobody calls
import torch
from torch import nn


class Loop:
    def __init__(self, model, replay, accum=4):
        self.model, self.replay, self.accum = model, replay, accum
        self.optimizer = torch.optim.RMSprop(model.parameters())
        self.criterion = nn.SmoothL1Loss()
        self.i = 0

    def reset(self):
        self.optimizer.zero_grad()

    def train_step(self):
        x, y = self.replay.fixed_batch(32)
        loss = self.criterion(self.model(x), y)
        (loss / self.accum).backward()
        self.i += 1
        if self.i % self.accum == 0:
            nn.utils.clip_grad_norm_(self.model.parameters(), 10.0)
            self.optimizer.step()  # expect: ACC303
