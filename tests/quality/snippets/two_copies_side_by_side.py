# mechanism: a plain and a prepared copy of a model trained side by side by one helper: their gradients are two
from copy import deepcopy

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR
from torch.utils.data import DataLoader


class Squares:
    def __init__(self, length):
        self.length = length

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        return {"x": torch.tensor([float(index)]), "y": torch.tensor([float(index) ** 2])}


class Line(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return self.a * x


def advance(model, inputs, targets, accelerator, plain=False):
    model.train()
    outputs = model(inputs)
    loss = F.mse_loss(outputs, targets.to(outputs.device))
    if plain:
        loss /= accelerator.gradient_accumulation_steps
        loss.backward()
    else:
        accelerator.backward(loss)  # expect: ACC107


def setup(accelerator, scheduled=False):
    model = Line()
    copy = deepcopy(model)
    loader = DataLoader(Squares(80), batch_size=16)
    model.to(accelerator.device)
    if scheduled:
        optimizer = AdamW(params=model.parameters(), lr=1e-3)
        copy_optimizer = AdamW(params=copy.parameters(), lr=1e-3)
        scheduler = LambdaLR(optimizer, lr_lambda=lambda epoch: epoch**0.65)
        copy_scheduler = LambdaLR(copy_optimizer, lr_lambda=lambda epoch: epoch**0.65)
        copy, copy_optimizer, copy_scheduler, loader = accelerator.prepare(copy, copy_optimizer, copy_scheduler, loader)
        return model, optimizer, scheduler, loader, copy, copy_optimizer, copy_scheduler
    copy, loader = accelerator.prepare(copy, loader)
    return model, copy, loader


def compare(accelerator):
    model, copy, loader = setup(accelerator)
    for batch in loader:
        inputs, targets = batch.values()
        advance(model, inputs, targets, accelerator)
        with accelerator.no_sync(copy):
            advance(copy, inputs, targets, accelerator)


def train():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    model, optimizer, scheduler, loader, copy, copy_optimizer, copy_scheduler = setup(accelerator, True)
    for index, batch in enumerate(loader):
        copy_inputs, copy_targets = batch.values()
        inputs, targets = accelerator.gather((copy_inputs, copy_targets))
        advance(model, inputs, targets, accelerator, plain=True)
        optimizer.step()  # expect: ACC301
        if (index + 1) % 2 == 0 or index + 1 == len(loader):
            scheduler.step()
        with accelerator.accumulate(copy):
            advance(copy, copy_inputs, copy_targets, accelerator)
            copy_optimizer.step()
            copy_scheduler.step()
        if (index + 1) % 2 == 0 or index + 1 == len(loader):
            optimizer.zero_grad()
        copy_optimizer.zero_grad()


def main():
    compare(Accelerator())
    train()


if __name__ == "__main__":
    main()
