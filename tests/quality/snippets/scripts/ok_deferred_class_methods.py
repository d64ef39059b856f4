# expect: nothing
# mechanism: a class sums losses, counts targets and divides the gradients in a method of its own
import torch
from torch import nn


class Trainer:
    def __init__(self, model, accum, clip=1.0):
        self.model, self.accum, self.clip = model, accum, clip
        self.optimizer = torch.optim.AdamW(model.parameters())
        self.criterion = nn.CrossEntropyLoss(ignore_index=0, reduction="sum")
        self.tokens = 0
        self.pending = 0

    def accumulate(self, batch):
        logits = self.model(batch["src"], batch["tgt"][:, :-1])
        gold = batch["tgt"][:, 1:]
        self.criterion(logits.reshape(-1, logits.size(-1)), gold.reshape(-1)).backward()
        self.tokens += gold.ne(0).sum().item()
        self.pending += 1

    def flush(self):
        if not self.pending:
            return
        for p in self.model.parameters():
            if p.grad is not None:
                p.grad.div_(max(self.tokens, 1))
        nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        self.optimizer.step()
        self.optimizer.zero_grad()
        self.tokens = self.pending = 0

    def epoch(self, loader):
        for batch in loader:
            self.accumulate(batch)
            if self.pending == self.accum:
                self.flush()
        self.flush()
