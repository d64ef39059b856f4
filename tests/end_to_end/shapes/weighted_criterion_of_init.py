"""Class weights in a criterion that the constructor makes."""

import torch
from torch import nn


class Segmenter:
    def __init__(self, net, optimizer, class_weights, steps=4):
        self.net = net
        self.optimizer = optimizer
        self.steps = steps
        self.criterion = nn.CrossEntropyLoss(weight=class_weights, ignore_index=255)

    def train_epoch(self, loader):
        running = 0.0
        self.optimizer.zero_grad()
        for i, (image, mask) in enumerate(loader):
            output = self.net(image)
            loss = self.criterion(output.permute(0, 2, 1), mask)
            running += loss.item()
            loss = loss / self.steps
            loss.backward()  # expect: ACC101, ACC107
            if (i + 1) % self.steps == 0 or (i + 1) == len(loader):
                torch.nn.utils.clip_grad_norm_(self.net.parameters(), 5.0)
                self.optimizer.step()
                self.optimizer.zero_grad()
        return running / len(loader)
