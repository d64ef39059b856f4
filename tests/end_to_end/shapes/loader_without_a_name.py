"""The loader is made where it is gone through: nothing can be asked for its length."""

import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(model, dataset, optimizer, accumulation=4, epochs=1):
    for _ in range(epochs):
        for step, (ids, labels) in enumerate(DataLoader(dataset, batch_size=None)):
            loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
            (loss / accumulation).backward()  # expect: ACC101
            if (step + 1) % accumulation == 0:  # expect: ACC304
                optimizer.step()
                optimizer.zero_grad()
