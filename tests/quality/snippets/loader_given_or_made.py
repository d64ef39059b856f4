# mechanism: a loader that the caller may hand in, else made by a helper that is told to drop the short batch
import torch
from torch.utils.data import DataLoader


def make_loader(rows, **options):
    return DataLoader(rows, shuffle=True, **options)


class Trainer:
    def __init__(self, model, rows=None, loader=None, batch_size=8, every=4, drop_last=True):
        self.model = model
        self.every = every
        self.optimizer = torch.optim.Adam(model.parameters())
        if rows is not None:
            loader = make_loader(rows, batch_size=batch_size, drop_last=drop_last)
        self.loader = loader

    def train(self):
        for index, images in enumerate(self.loader):
            loss = self.model(images, return_loss=True)
            (loss / self.every).backward()  # expect: ACC107
            if (index + 1) % self.every == 0 or index + 1 == len(self.loader):
                self.optimizer.step()
                self.optimizer.zero_grad()
