"""Next-token training in a class: one method a microbatch, one an update."""

import torch
import torch.nn.functional as F


class LanguageTrainer:
    def __init__(self, net, opt, micro_batches=4, clip=1.0):
        self.net = net
        self.opt = opt
        self.micro_batches = micro_batches
        self.clip = clip
        self.history = []

    def accumulate(self, tokens, labels):
        logits = self.net(tokens)
        # padded positions carry -100
        loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.view(-1), ignore_index=-100)
        loss = loss / self.micro_batches
        loss.backward()  # expect: ACC101, ACC107

    def apply_update(self):
        torch.nn.utils.clip_grad_norm_(self.net.parameters(), self.clip)
        self.opt.step()
        self.opt.zero_grad()

    def fit(self, loader, epochs):
        for _ in range(epochs):
            self.net.train()
            for number, (tokens, labels) in enumerate(loader, 1):
                self.accumulate(tokens, labels)
                if number % self.micro_batches == 0 or number == len(loader):
                    self.apply_update()
