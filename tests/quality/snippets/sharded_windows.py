# mechanism: FSDP2 gathers gradients where the flag says so when the backward runs; FSDP1 in a context
import contextlib

import torch
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel, fully_shard


def train_two(model, loader, steps):
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    whole = len(loader) // steps * steps
    for index, (inputs, targets) in enumerate(loader):
        if index == whole:
            break
        model.set_requires_gradient_sync(index % steps == 0)  # expect: ACC308
        loss = F.mse_loss(model(inputs), targets) / steps
        loss.backward()  # expect: ACC102
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_two_right(model, loader, steps):
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters())
    whole = len(loader) // steps * steps
    for index, (inputs, targets) in enumerate(loader):
        if index == whole:
            break
        model.set_requires_gradient_sync((index + 1) % steps == 0)
        loss = F.mse_loss(model(inputs), targets, reduction="sum") / (steps * 16)
        loss.backward()
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_one(model, loader, steps):
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    whole = len(loader) // steps * steps
    for index, (inputs, targets) in enumerate(loader):
        if index == whole:
            break
        with model.no_sync() if index % steps else contextlib.nullcontext():  # expect: ACC308
            loss = F.mse_loss(model(inputs), targets, reduction="sum") / (steps * 16)
            loss.backward()
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()


def train_one_right(model, loader, steps):
    model = FullyShardedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters())
    whole = len(loader) // steps * steps
    for index, (inputs, targets) in enumerate(loader):
        if index == whole:
            break
        with model.no_sync() if (index + 1) % steps else contextlib.nullcontext():
            loss = F.mse_loss(model(inputs), targets, reduction="sum") / (steps * 16)
            loss.backward()
        if (index + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
