# expect: nothing
# mechanism: pre-count with a dataclass config, window list comprehension, checkpoint of the state
from dataclasses import dataclass, field

import torch
from torch import nn


@dataclass
class TrainConfig:
    accum: int = 4
    lr: float = 3e-4
    ignore: int = -100
    betas: tuple = field(default=(0.9, 0.95))


class Trainer:
    def __init__(self, model, stream, cfg: TrainConfig):
        self.model, self.stream, self.cfg = model, stream, cfg
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=cfg.betas)
        self.loss_fn = nn.CrossEntropyLoss(ignore_index=cfg.ignore, reduction="sum")
        self.update_count = 0

    def state_dict(self):
        return {"model": self.model.state_dict(), "opt": self.opt.state_dict(), "updates": self.update_count}

    def load_state_dict(self, state):
        self.model.load_state_dict(state["model"])
        self.opt.load_state_dict(state["opt"])
        self.update_count = state["updates"]

    def update(self):
        window = [next(self.stream) for _ in range(self.cfg.accum)]
        total = sum((labels != self.cfg.ignore).sum() for _, labels in window)
        total = torch.clamp(total, min=1)
        for ids, labels in window:
            logits = self.model(ids)
            loss = self.loss_fn(logits.view(-1, logits.size(-1)), labels.view(-1))
            (loss / total).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
        self.update_count += 1
