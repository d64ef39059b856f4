"""Makes of the user's microbatches what they do not hold: one without targets, and a window that is not full.

Both are where loops fail that look right on whole windows. Only the label that losses ignore is put in, and only where
the user's own `count` and `loss_sum` agree that nothing is left to learn from then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from accumlint.harness.reference import Count, LossSum, read_count, scalar_loss
from accumlint.harness.twin import map_tensors

IGNORED = -100  # what torch's losses and Hugging Face's models ignore


def force(
    data: Sequence[Any], counts: Sequence[float], steps: int, model: Any, loss_sum: LossSum, count: Count
) -> tuple[list[Any], str] | None:
    """Return other microbatches and what was done to them; None if nothing is missing or nothing can be made."""
    changed, done = list(data), []
    is_one_window = steps >= len(data)  # a loop that takes its whole list for one window must not get a longer list
    empty = None if 0 in counts or len(data) < 2 else make_empty(data[0], model, loss_sum, count)
    if empty is not None:
        changed[1 : 2 if is_one_window else 1] = [empty]
        done.append("a microbatch without targets")
    if not is_one_window and steps > 1:
        if len(changed) % steps == 0:
            changed.pop()
        if len(data) % steps == 0:
            done.append("a partial window")
    return (changed, " and ".join(done)) if done else None


def make_empty(microbatch: Any, model: Any, loss_sum: LossSum, count: Count) -> Any:
    """Return a copy without valid targets, or None if no tensor of integers is one of labels with an ignored value."""
    number = 0

    def count_tensors(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal number
        number += 1
        return tensor

    map_tensors(microbatch, count_tensors)
    for position in range(number):
        copied = map_tensors(microbatch, _replacer(position))
        try:
            if read_count(count, copied) != 0:
                continue
            loss = float(scalar_loss(loss_sum, model, copied).detach())
        except Exception:
            continue  # an index out of range: that tensor holds no labels
        if loss == 0 and math.isfinite(loss):
            return copied
    return None


def _replacer(position: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """Return a function that replaces the tensor of that place by one of ignored labels, if it holds integers."""
    seen = -1

    def replace(tensor: torch.Tensor) -> torch.Tensor:
        nonlocal seen
        seen += 1
        is_label = seen == position and tensor.dtype == torch.int64
        return torch.full_like(tensor, IGNORED) if is_label else tensor

    return replace
