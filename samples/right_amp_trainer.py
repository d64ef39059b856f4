# expect: nothing
"""Mixed precision done right: unscale, divide, clip, step, update, clear; once a window, also for the short last one."""

import torch
import torch.nn.functional as F
from torch import nn


class AmpTrainer:
    def __init__(self, model, optimizer, scaler, accumulation_steps=3, max_norm=1.0, device="cpu"):
        self.model = model
        self.optimizer = optimizer
        self.scaler = scaler
        self.accumulation_steps = accumulation_steps
        self.max_norm = max_norm
        self.device = device
        self.pending = 0
        self.examples = 0

    def microbatch(self, features, labels):
        with torch.autocast(self.device, enabled=self.scaler.is_enabled()):
            loss = F.cross_entropy(self.model(features), labels, reduction="sum")
        self.scaler.scale(loss).backward()
        self.examples += labels.size(0)
        self.pending += 1
        return loss.item()

    def update(self):
        self.scaler.unscale_(self.optimizer)
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                parameter.grad /= max(self.examples, 1)
        nn.utils.clip_grad_norm_(self.model.parameters(), self.max_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        self.pending = self.examples = 0

    def epoch(self, loader):
        total = 0.0
        for features, labels in loader:
            total += self.microbatch(features, labels)
            if self.pending == self.accumulation_steps:
                self.update()
        if self.pending:
            self.update()
        return total


def main():
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    features = torch.randn(75, 4, device=device)
    labels = features.argmax(1)
    loader = list(zip(features.split(8), labels.split(8)))
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 4)).to(device)
    scaler = torch.amp.GradScaler(device, enabled=device == "cuda")
    trainer = AmpTrainer(model, torch.optim.SGD(model.parameters(), lr=0.5), scaler, device=device)
    for epoch in range(5):
        print(f"epoch {epoch}: loss {trainer.epoch(loader) / len(features):.4f}")


if __name__ == "__main__":
    main()
