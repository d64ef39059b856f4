"""Small problems on which no wrong loop passes by luck: nonlinear, unequal counts, a zero count, an active clip."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

IGNORED = -100
COUNTS = (2, 5, 0, 3, 1, 4, 6)  # windows of 2 or 3 leave a partial one; the third microbatch has no target


@dataclass(frozen=True)
class Toy:
    """A classifier and its microbatches `(inputs, targets)`; `max_norm` is below every window's gradient norm."""

    model: torch.nn.Module
    microbatches: list[tuple[torch.Tensor, torch.Tensor]]
    max_norm: float = 0.05

    @staticmethod
    def loss_sum(model: Any, microbatch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        inputs, targets = microbatch
        return functional.cross_entropy(model(inputs), targets, reduction="sum", ignore_index=IGNORED)

    @staticmethod
    def loss_mean(model: Any, microbatch: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        inputs, targets = microbatch
        return functional.cross_entropy(model(inputs), targets, ignore_index=IGNORED)

    @staticmethod
    def count(microbatch: tuple[torch.Tensor, torch.Tensor]) -> int:
        return int((microbatch[1] != IGNORED).sum())


def classification_toy(
    counts: Sequence[int] = COUNTS,
    *,
    rows: int = 8,
    features: int = 4,
    classes: int = 3,
    seed: int = 0,
    dtype: torch.dtype = torch.float64,
) -> Toy:
    """Return a two-layer tanh classifier with `counts[k]` valid targets among the `rows` of microbatch k."""
    if any(not 0 <= n <= rows for n in counts):
        raise ValueError(f"each count must lie between 0 and {rows}: {tuple(counts)}")
    generator = torch.Generator().manual_seed(seed)

    def draw(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    model = torch.nn.Sequential(
        torch.nn.Linear(features, 6, dtype=dtype), torch.nn.Tanh(), torch.nn.Linear(6, classes, dtype=dtype)
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(draw(*parameter.shape))
    microbatches = []
    for n in counts:
        targets = torch.randint(0, classes, (rows,), generator=generator)
        order = torch.randperm(rows, generator=generator)
        targets[order[n:]] = IGNORED
        microbatches.append((draw(rows, features), targets))
    return Toy(model, microbatches)
