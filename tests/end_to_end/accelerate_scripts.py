"""Wrong Accelerate loops in several dresses, and the problem that each is run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from drive import Problem
from framework_specs import rows_of, stacked
from problems import COUNTS, Tokens, sgd, token_loss, token_model
from torch import nn

K = 3
HEAD = """
import torch
import torch.nn.functional as F
from accelerate import Accelerator

"""

SCRIPTS = {
    "clip under sync_gradients, loss logged": HEAD
    + """
def train(model, loader, optimizer, scheduler, weights, accum, epochs):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    logged = []
    for epoch in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                logits = model(batch["input_ids"])
                loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
            logged.append(accelerator.gather(loss.detach()).mean().item())
    return logged
""",
    "no clip, class weights": HEAD
    + """
def train(model, loader, optimizer, scheduler, weights, accum, epochs):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                logits = model(batch["input_ids"]).flatten(0, 1)
                loss = F.cross_entropy(logits, batch["labels"].flatten(), weight=weights)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
""",
    "boundary by hand": HEAD
    + """
def train(model, loader, optimizer, scheduler, weights, accum, epochs):
    accelerator = Accelerator()
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    for _ in range(epochs):
        for i, batch in enumerate(loader):
            logits = model(batch["input_ids"])
            loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
            accelerator.backward(loss / accum)
            if (i + 1) % accum == 0 or i + 1 == len(loader):
                accelerator.clip_grad_value_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
""",
    "plain backward, unprepared scheduler": HEAD
    + """
def train(model, loader, optimizer, scheduler, weights, accum, epochs):
    accelerator = Accelerator(gradient_accumulation_steps=accum)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                logits = model(batch["input_ids"])
                loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
                loss = loss / accum
                loss.backward()
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
""",
    "windows over the end of a pass": HEAD
    + """from accelerate.utils import GradientAccumulationPlugin


def train(model, loader, optimizer, scheduler, weights, accum, epochs):
    plugin = GradientAccumulationPlugin(num_steps=accum, sync_with_dataloader=False)
    accelerator = Accelerator(gradient_accumulation_plugin=plugin)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for _ in range(epochs):
        for batch in loader:
            with accelerator.accumulate(model):
                logits = model(batch["input_ids"])
                loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
""",
}


def tokens(world: int, counts: Sequence[int] = COUNTS, weighted: bool = False, over_end: bool = False) -> Problem:
    """Six microbatches of two rows (each rank gets every other one), twice over them."""
    torch.manual_seed(3)
    model, drawn = token_model(), Tokens(counts)
    weights = torch.rand(model[-1].out_features) + 0.1
    optimizer = sgd(model)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))
    loader = torch.utils.data.DataLoader(rows_of(drawn)[:12], batch_size=2, collate_fn=stacked)
    each = 6 // world
    k = 2 if over_end else K
    windows = (2,) * each if over_end else (K,) * (each // K) * 2
    return Problem(
        model,
        drawn.examples,
        weighted_loss(weights) if weighted else token_loss(),
        lambda ns, _: ns["train"](model, loader, optimizer, schedule, weights, k, 2),
        windows,
    )


def weighted_loss(weights: torch.Tensor) -> Callable[..., tuple[torch.Tensor, torch.Tensor]]:
    def total(model: nn.Module, keys: torch.Tensor, columns):
        labels = columns["labels"]
        keep = labels != -100
        if not bool(keep.any()):
            return model(keys).sum() * 0.0, 0.0
        own = weights[labels[keep]]
        logs = model(keys).log_softmax(-1)[keep].gather(1, labels[keep][:, None]).squeeze(1)
        return -(own * logs).sum(), own.sum()

    return total


COUNTED = {"unequal counts": COUNTS, "a rank without targets": (7, 0, 2, 0, 9, 0, 3)}  # ranks take turns
PROBLEMS: dict[str, Callable[[int], Problem]] = {
    f"{name}, {counted}": (
        lambda world, counts=counts, name=name: tokens(world, counts, "weights" in name, "over the end" in name)
    )
    for name in SCRIPTS
    for counted, counts in COUNTED.items()
}
