"""Mixed precision in a class, the clip of scaled gradients in the method of the microbatch."""

import torch
import torch.nn.functional as F


class AmpTrainer:
    def __init__(self, model, optimizer, scaler, accum=4):
        self.model, self.optimizer, self.scaler, self.accum = model, optimizer, scaler, accum

    def micro(self, x, y):
        with torch.autocast("cuda"):
            loss = F.cross_entropy(self.model(x), y) / self.accum
        self.scaler.scale(loss).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)  # expect: ACC201, ACC202

    def update(self):
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)

    def run(self, draw, updates):
        for _ in range(updates):
            for _ in range(self.accum):
                self.micro(*draw(8))
            self.update()
