# expect: nothing
# mechanism: drop_last, one label an image, and only whole windows are iterated
import itertools

import torch
from torch import nn
from torch.utils.data import DataLoader


def main(model, dataset, accum=4, epochs=10):
    loader = DataLoader(dataset, batch_size=32, shuffle=True, drop_last=True)
    usable = len(loader) // accum * accum
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=30)
    loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
    for epoch in range(epochs):
        for i, (x, y) in enumerate(itertools.islice(loader, usable)):
            loss = loss_fn(model(x), y)
            (loss / accum).backward()
            if (i + 1) % accum == 0:
                optimizer.step()
                optimizer.zero_grad()
        scheduler.step()
