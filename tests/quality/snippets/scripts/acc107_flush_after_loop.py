# mechanism: the rest of an epoch is stepped behind the loop, but was divided by the whole number of steps
import torch
from torch.utils.data import DataLoader


def train(model, dataset, epochs, accumulation, batch=8):
    loader = DataLoader(dataset, batch_size=batch, shuffle=True, drop_last=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            error = (model(x) - y).pow(2).mean()
            (error / accumulation).backward()  # expect: ACC107
            if (i + 1) % accumulation == 0:
                optimizer.step()
                optimizer.zero_grad()
        if len(loader) % accumulation != 0:
            optimizer.step()
            optimizer.zero_grad()
