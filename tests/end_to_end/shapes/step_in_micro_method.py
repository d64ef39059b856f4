"""The step is called with every microbatch, the clear once a window."""

import torch.nn.functional as F


class Loop:
    def __init__(self, model, opt, k=4):
        self.model, self.opt, self.k = model, opt, k

    def micro(self, x, y):
        loss = F.mse_loss(self.model(x).squeeze(-1), y) / self.k
        loss.backward()
        self.opt.step()  # expect: ACC301

    def run(self, draw, updates):
        for _ in range(updates):
            self.opt.zero_grad()
            for _ in range(self.k):
                self.micro(*draw(8))
