"""Notices what makes a loop less precise than its dtype, because that decides how close to the full batch it can come.

Two things do: tensors of integers that are divided, which yields float32 whatever the model's dtype, and a cast inside
the model or its loss (Hugging Face's causal LM loss and Llama's norms compute in float32, autocast in bfloat16).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

from accumlint.harness.tolerances import get_tolerance


class PrecisionWatch(TorchFunctionMode):  # type: ignore[misc]
    """A mode. `integer_division`: seen; `narrowest`: the least precise dtype that a gradient was cast to, or None."""

    def __init__(self) -> None:
        super().__init__()
        self.integer_division = False
        self.narrowest: torch.dtype | None = None

    def __torch_function__(self, func: Any, classes: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        tensors = [a for a in args if isinstance(a, torch.Tensor)]
        name = getattr(func, "__name__", "")
        if "div" in name and "floor" not in name:
            is_integer = tensors and not any(a.is_floating_point() or a.is_complex() for a in tensors)
            self.integer_division |= bool(is_integer) and not any(isinstance(a, float) for a in args)
        if isinstance(result, torch.Tensor) and result.is_floating_point() and result.requires_grad:
            given = [a.dtype for a in tensors if a.is_floating_point() and a.requires_grad]
            if given and all(_rounding(result.dtype) > _rounding(dtype) for dtype in given):
                self.narrowest = least_precise([result.dtype, *([self.narrowest] if self.narrowest else [])])
        return result


def _rounding(dtype: torch.dtype) -> float:
    return float(torch.finfo(dtype).eps)


def least_precise(dtypes: Iterable[torch.dtype]) -> torch.dtype:
    return max(dtypes, key=_rounding)


def choose_tolerance(
    used: torch.dtype,
    tolerance: float | None,
    narrowest: Iterable[torch.dtype | None],
    *,
    integer_division: bool,
    assumptions: list[str],
) -> float:
    """Return the tolerance of gradients of dtype `used`, with a line in `assumptions` if something widened it.

    `narrowest` are the dtypes that the loop and the reference cast to (None: nothing). A given `tolerance` stands.
    """
    if tolerance is not None:
        return tolerance
    chosen, reason = get_tolerance(used), ""
    cast = least_precise([used, *(dtype for dtype in narrowest if dtype is not None)])
    if integer_division and get_tolerance(used, integer_division=True) > chosen:
        chosen = get_tolerance(used, integer_division=True)
        reason = "the loop divides integer tensors, which rounds to float32"
    if get_tolerance(cast) > chosen:
        chosen = get_tolerance(cast)
        reason = f"the model or its loss casts to {str(cast).removeprefix('torch.')} inside"
    if reason:
        assumptions.append(f"{reason}: tolerance {chosen:g}")
    return chosen
