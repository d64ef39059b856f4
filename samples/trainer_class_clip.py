"""A trainer class with one method a concern: sampling, microbatch, update."""

import torch
from torch import nn


class Trainer:
    def __init__(self, model, optimizer, inputs, targets, accumulation_steps=4, batch_size=8, max_grad_norm=0.1):
        self.model = model
        self.optimizer = optimizer
        self.inputs = inputs
        self.targets = targets
        self.accumulation_steps = accumulation_steps
        self.batch_size = batch_size
        self.max_grad_norm = max_grad_norm
        self.updates = 0
        self.loss_of_update = 0.0

    def sample(self):
        rows = torch.randint(0, self.inputs.size(0), (self.batch_size,))
        return self.inputs[rows], self.targets[rows]

    def training_step(self):
        x, y = self.sample()
        loss = nn.functional.binary_cross_entropy_with_logits(self.model(x).squeeze(-1), y)
        self.loss_of_update += loss.item() / self.accumulation_steps
        loss = loss / self.accumulation_steps
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_grad_norm)  # expect: ACC201

    def update(self):
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.updates += 1

    def run(self, updates, log_every=20):
        self.model.train()
        for _ in range(updates):
            self.loss_of_update = 0.0
            for _ in range(self.accumulation_steps):
                self.training_step()
            self.update()
            if self.updates % log_every == 0:
                print(f"update {self.updates}: loss {self.loss_of_update:.4f}")


def main():
    torch.manual_seed(0)
    inputs = torch.randn(200, 3)
    targets = (inputs.prod(1) > 0).float()
    model = nn.Sequential(nn.Linear(3, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    Trainer(model, optimizer, inputs, targets).run(updates=60)


if __name__ == "__main__":
    main()
