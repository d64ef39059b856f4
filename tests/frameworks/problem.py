"""What the framework tests share: a toy of unequal counts, windows of K, and the parts of loops."""

from __future__ import annotations

import torch
from torch.nn import functional

from accumlint.harness import Report, accumcheck
from accumlint.harness.toys import Toy, classification_toy

K = 3
CLIP = 0.05
TOY = classification_toy()  # counts 2, 5, 0 | 3, 1, 4 | 6: an empty microbatch, and a partial window of one


def check(train, model: torch.nn.Module | None = None, **options) -> Report:
    given = {"loss_sum": Toy.loss_sum, "count": Toy.count, "accumulation_steps": K, **options}
    return accumcheck(train, TOY.model if model is None else model, TOY.microbatches, **given)


def mean(model, microbatch) -> torch.Tensor:
    """The mean over the valid targets; 0 where there is none, as careful users write it."""
    inputs, targets = microbatch
    total = functional.cross_entropy(model(inputs), targets, reduction="sum")
    return total / max(Toy.count(microbatch), 1)


def window_total(microbatches, index: int) -> int:
    """The valid targets of the window that holds microbatch `index`."""
    start = index - index % K
    return sum(Toy.count(mb) for mb in microbatches[start : start + K])


def shares(report: Report, window: int) -> list[float | None]:
    return list(report.windows[window].weights)
