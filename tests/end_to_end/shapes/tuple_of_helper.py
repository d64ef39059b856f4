"""A method returns the loss and a number to log."""

import torch
import torch.nn.functional as F


class Tagger:
    def __init__(self, net, opt, accum=4):
        self.net, self.opt, self.accum = net, opt, accum

    def compute(self, batch):
        scores = self.net(batch["ids"])
        loss = F.cross_entropy(scores.flatten(0, 1), batch["tags"].flatten(), ignore_index=-100)
        accuracy = (scores.argmax(-1) == batch["tags"]).sum().item()
        return loss, accuracy

    def train(self, loader):
        total = 0.0
        for i, batch in enumerate(loader):
            loss, hits = self.compute(batch)
            total += loss.item()
            loss = loss / self.accum
            loss.backward()  # expect: ACC101, ACC107
            if (i + 1) % self.accum == 0 or i + 1 == len(loader):
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
                self.opt.step()
                self.opt.zero_grad()
        return total / len(loader)
