# expect: nothing
# mechanism: setup in one method, properties, pre-count by a generator expression
import torch
from torch import nn


class Session:
    def __init__(self, cfg):
        self.cfg = cfg
        self._model = None
        self._optimizer = None

    def setup(self, model):
        self._model = model
        self._optimizer = torch.optim.AdamW(model.parameters(), lr=self.cfg.lr)

    @property
    def model(self):
        return self._model

    @property
    def optimizer(self):
        return self._optimizer

    def step(self, window):
        denominator = max(sum(int(b["weights"].gt(0).sum()) for b in window), 1)
        self.optimizer.zero_grad()
        losses = []
        for b in window:
            logits = self.model(b["ids"])
            nll = nn.functional.cross_entropy(logits.transpose(1, 2), b["targets"], reduction="none")
            loss = (nll * b["weights"].gt(0)).sum() / denominator
            loss.backward()
            losses.append(loss.detach())
        nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg.clip)
        self.optimizer.step()
        return torch.stack(losses).sum()
