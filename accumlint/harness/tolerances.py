"""How far two gradients may lie apart, and how that is measured.

The measure is the global relative L2 norm of the gradient before clip and step. Elementwise relative error is useless:
elements that are zero in exact arithmetic are pure rounding noise. Parameters after AdamW, or after an active clip,
hide scale errors (down to 1e-5 and 1e-9). The numbers were measured with torch 2.13.0 on CPU: 12 seeds, 2 to 16
microbatches, an MLP and a two-layer transformer; the margins over rounding are about 1000x, 30x and 4x, while equal
weighting of unequal counts gives 8e-2 and more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

FP64 = 1e-12
INTEGER_DIVISION = 1e-7  # k / n of two int64 tensors is float32, also inside an fp64 model
FP32 = 1e-5
BF16 = 3e-2

_BY_DTYPE = {torch.float64: FP64, torch.float32: FP32, torch.bfloat16: BF16, torch.float16: BF16}


def get_tolerance(dtype: torch.dtype, *, integer_division: bool = False) -> float:
    """Return the tolerance for gradients of `dtype`; `integer_division`: the code divides integer tensors."""
    try:
        tolerance = _BY_DTYPE[dtype]
    except KeyError:
        raise ValueError(f"no tolerance is known for {dtype}") from None
    return max(tolerance, INTEGER_DIVISION) if integer_division else tolerance


def l2_norm(gradient: Mapping[str, torch.Tensor]) -> float:
    """Return the L2 norm over all tensors, accumulated in fp64."""
    return math.sqrt(sum(float(tensor.detach().double().square().sum()) for tensor in gradient.values()))


def relative_error(actual: Mapping[str, torch.Tensor], expected: Mapping[str, torch.Tensor]) -> float:
    """Return ||actual - expected|| / ||expected|| over all names; an absent tensor is zero.

    NaN anywhere gives infinity; so does a zero `expected` beside an `actual` that is not zero.
    """
    difference = 0.0
    for name in actual.keys() | expected.keys():
        a, b = actual.get(name), expected.get(name)
        if a is not None and b is not None:
            delta = a.detach().double() - b.detach().double()
        else:
            present = a if a is not None else b
            assert present is not None
            delta = present.detach().double()
        difference += float(delta.square().sum())
    norm = l2_norm(expected)
    if not math.isfinite(difference) or not math.isfinite(norm):
        return math.inf
    if norm == 0.0:
        return 0.0 if difference == 0.0 else math.inf
    return math.sqrt(difference) / norm
