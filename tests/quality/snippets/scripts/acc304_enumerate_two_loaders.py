# mechanism: whole windows of zipped loaders only, the rest of every epoch leaks
import torch
from torch.utils.data import DataLoader


def train(model, clean, noisy, optimizer, epochs, accum):
    first = DataLoader(clean, batch_size=8, shuffle=True, drop_last=True)
    second = DataLoader(noisy, batch_size=8, shuffle=True, drop_last=True)
    l1 = torch.nn.L1Loss()
    for _ in range(epochs):
        for i, (a, b) in enumerate(zip(first, second)):
            loss = l1(model(b), a)
            loss = loss / accum
            loss.backward()
            if (i + 1) % accum == 0:  # expect: ACC304
                optimizer.step()
                optimizer.zero_grad()
