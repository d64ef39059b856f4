# mechanism: get_batch is imported
import torch
from torch import nn

from corpus import get_batch


class Run:
    def __init__(self, net, accum, updates):
        self.net, self.accum, self.updates = net, accum, updates
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.AdamW(net.parameters())

    def go(self):
        for _ in range(self.updates):
            for _ in range(self.accum):
                x, y = get_batch("train")
                logits = self.net(x)
                loss = self.criterion(logits.view(-1, logits.shape[-1]), y.view(-1))
                (loss / self.accum).backward()  # expect-optin: ACC404
            self.optimizer.step()
            self.optimizer.zero_grad()
