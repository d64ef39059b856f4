"""Wrong loops of torch's own DistributedDataParallel, and the problem that each is run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from accelerate_scripts import COUNTED, weighted_loss
from drive import Problem
from problems import Tokens, sgd, token_loss, token_model
from rank_specs import my_rank, own_batches

HEAD = """
import contextlib

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

"""

SCRIPTS = {
    "no_sync": HEAD
    + """
def train(model, loader, optimizer, weights, rank, distributed, accum, epochs):
    model = DDP(model, device_ids=[rank])
    for epoch in range(epochs):
        for i, batch in enumerate(loader):
            last = (i + 1) % accum == 0 or i + 1 == len(loader)
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(batch["tokens"])
                loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100) / accum
                loss.backward()
            if last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
""",
    "on a condition": HEAD
    + """
def train(model, loader, optimizer, weights, rank, distributed, accum, epochs):
    if distributed:
        model = DDP(model, device_ids=[rank])
    for epoch in range(epochs):
        for i, batch in enumerate(loader):
            last = (i + 1) % accum == 0 or i + 1 == len(loader)
            if distributed:
                model.require_backward_grad_sync = last
            logits = model(batch["tokens"])
            loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
            (loss / accum).backward()
            if last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
        if rank == 0:
            print(epoch, loss.item())
""",
    "class weights, synchronised each time": HEAD
    + """
def train(model, loader, optimizer, weights, rank, distributed, accum, epochs):
    ddp = DDP(model, device_ids=[rank])
    criterion = torch.nn.CrossEntropyLoss(weight=weights)
    for epoch in range(epochs):
        for i, batch in enumerate(loader):
            loss = criterion(ddp(batch["tokens"]).flatten(0, 1), batch["labels"].flatten())
            (loss / accum).backward()
            if (i + 1) % accum == 0 or i + 1 == len(loader):
                optimizer.step()
                optimizer.zero_grad()
""",
}
WORLDS = {name: (1, 2) if name == "on a condition" else (2,) for name in SCRIPTS}


def tokens(name: str, counts: Sequence[int], world: int) -> Problem:
    """Every other batch of six on each of two ranks, twice over them."""
    model, drawn = token_model(), Tokens(counts)
    batches = own_batches(drawn, world)[: 6 // world]
    weights = torch.rand(model[-1].out_features) + 0.1
    return Problem(
        model,
        drawn.examples,
        weighted_loss(weights) if "weights" in name else token_loss(),
        lambda ns, _: ns["train"](model, batches, sgd(model), weights, my_rank(), world > 1, 2, 2),
        ((2, 1) if world > 1 else (2, 2, 2)) * 2,
    )


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    f"{name}, {counted}": partial(tokens, name, counts) for name in SCRIPTS for counted, counts in COUNTED.items()
}
