# mechanism: a flag says "window full or last batch"; the divisor stays the configured number
import torch
from torch import nn
from torch.utils.data import DataLoader


class Engine:
    def __init__(self, model, cfg):
        self.model, self.cfg = model, cfg
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"])
        self.loss_fn = nn.CrossEntropyLoss()

    def train_one_epoch(self, dataset):
        loader = DataLoader(dataset, batch_size=self.cfg["batch"], shuffle=True, drop_last=True, pin_memory=True)
        self.model.train()
        for step, (images, targets) in enumerate(loader):
            is_last = step == len(loader) - 1
            need_update = is_last or (step + 1) % self.cfg["accumulate"] == 0
            loss = self.loss_fn(self.model(images), targets)
            loss = loss / self.cfg["accumulate"]
            loss.backward()  # expect: ACC107
            if not need_update:
                continue
            nn.utils.clip_grad_norm_(self.model.parameters(), self.cfg["clip"])
            self.optimizer.step()
            self.optimizer.zero_grad()
