"""A wrong Fabric loop, and the problem that it is run on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from accelerate_scripts import COUNTED
from drive import Problem
from problems import Tokens, sgd, token_loss, token_model
from rank_specs import own_batches

SCRIPTS = {
    "no_backward_sync": """
import torch
import torch.nn.functional as F
from lightning.fabric import Fabric


def train(fabric: Fabric, model, optimizer, loader, accum, epochs):
    model, optimizer = fabric.setup(model, optimizer)
    for _ in range(epochs):
        for i, batch in enumerate(loader):
            last = (i + 1) % accum == 0 or i + 1 == len(loader)
            with fabric.no_backward_sync(model, enabled=not last):
                logits = model(batch["tokens"])
                loss = F.cross_entropy(logits.flatten(0, 1), batch["labels"].flatten(), ignore_index=-100)
                fabric.backward(loss / accum)
            if last:
                fabric.clip_gradients(model, optimizer, max_norm=1.0)
                optimizer.step()
                optimizer.zero_grad()
""",
}


def tokens(counts: Sequence[int], world: int) -> Problem:
    """Every other batch of six on each of two ranks, twice over them."""
    model, drawn = token_model(), Tokens(counts)
    batches = own_batches(drawn, world)[: 6 // world]

    def run(ns, _):
        from lightning.fabric import Fabric

        strategy = "ddp" if world > 1 else "auto"
        fabric = Fabric(accelerator="cpu", devices=world, strategy=strategy, precision="64-true")
        fabric.launch()
        ns["train"](fabric, model, sgd(model), batches, 2, 2)

    return Problem(model, drawn.examples, token_loss(), run, ((2, 1) if world > 1 else (2, 2, 2)) * 2)


PROBLEMS: dict[str, Callable[[int], Problem]] = {
    f"{name}, {counted}": partial(tokens, counts) for name in SCRIPTS for counted, counts in COUNTED.items()
}
