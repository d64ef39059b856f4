"""What the user gives, looked at before anything is run: counts, the reference, and what such data cannot show."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch

from accumlint.harness.errors import EqualCountsError, HarnessError, NonFiniteError
from accumlint.harness.precision import PrecisionWatch, least_precise
from accumlint.harness.reference import Count, LossSum, full_batch_gradient, read_count, scalar_loss
from accumlint.harness.tolerances import l2_norm
from accumlint.harness.twin import Twin


def read_counts(microbatches: Sequence[Any], count: Count) -> list[float]:
    """Return the counts; raises if they are no counts, or so equal that a wrong weighting would pass."""
    if not microbatches:
        raise HarnessError("no microbatches were given")
    try:
        counts = [read_count(count, microbatch) for microbatch in microbatches]
    except Exception as error:
        raise HarnessError(f"count(microbatch) raised {type(error).__name__}: {error}") from error
    if any(not math.isfinite(n) or n < 0 for n in counts):
        raise HarnessError(f"counts must be finite and not negative: {counts}")
    if sum(counts) == 0:
        raise NonFiniteError("no microbatch has a valid target: there is nothing to compare")
    if len(counts) == 1:
        raise EqualCountsError("one microbatch accumulates nothing: give several, with different numbers of targets")
    if len({n for n in counts if n > 0}) == 1:
        raise EqualCountsError(
            f"every microbatch with targets has the same count, {max(counts):g}: a loop that weights microbatches "
            "equally would pass; give microbatches with different numbers of valid targets, one of them without any"
        )
    return counts


def check_reference(
    twin: Twin, data: Sequence[Any], counts: Sequence[float], loss_sum: LossSum, count: Count
) -> PrecisionWatch:
    """Raise if the reference cannot be computed, is not finite, or is zero; return how precise it is."""
    watch = PrecisionWatch()
    try:
        with watch:
            gradient = full_batch_gradient(twin.model, data, loss_sum, count)
        for k, microbatch in enumerate(data):
            loss = float(scalar_loss(loss_sum, twin.model, microbatch).detach())
            if not math.isfinite(loss):
                hint = "; it has no target: use a sum, not a mean" if counts[k] == 0 else ""
                raise NonFiniteError(f"loss_sum of microbatch {k} is {loss}{hint}")
    except HarnessError:
        raise
    except Exception as error:
        hint = "; if the model cannot compute in float64, pass dtype=None" if "dtype" in str(error) else ""
        raise HarnessError(f"loss_sum(model, microbatch) failed: {type(error).__name__}: {error}{hint}") from error
    norm = l2_norm(gradient)
    if not math.isfinite(norm) or norm == 0:
        raise NonFiniteError(f"the full-batch gradient has norm {norm}: there is nothing to compare")
    return watch


def get_used_dtype(model: torch.nn.Module) -> torch.dtype:
    """Return the lowest precision among the trainable parameters."""
    return least_precise(p.dtype for p in model.parameters() if p.requires_grad)


def find_untested(counts: Sequence[float], steps: int) -> list[str]:
    untested = []
    if 0 not in counts:
        untested.append("no microbatch without a valid target was given")
    if len(counts) % steps == 0:
        untested.append(f"no partial window: {len(counts)} microbatches are whole windows of {steps}")
    for start in range(0, len(counts), steps):
        window = [n for n in counts[start : start + steps] if n > 0]
        if len(window) > 1 and len(set(window)) == 1:
            untested.append(f"the counts of microbatches {start}-{start + len(window) - 1} are equal")
    return untested
