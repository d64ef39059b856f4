"""The rest of every epoch is stepped behind the loop over batches, and divided by too much."""

from torch.utils.data import DataLoader


def train(model, dataset, optimizer, epochs, accumulation=4):
    loader = DataLoader(dataset, batch_size=4)
    for _ in range(epochs):
        for i, (x, y) in enumerate(loader):
            error = (model(x).squeeze(-1) - y).pow(2).mean()
            (error / accumulation).backward()  # expect: ACC102, ACC107
            if (i + 1) % accumulation == 0:
                optimizer.step()
                optimizer.zero_grad()
        if len(loader) % accumulation != 0:
            optimizer.step()
            optimizer.zero_grad()
