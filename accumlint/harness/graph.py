"""What the autograd graph of a loss tells of its weight and its count, without computing anything on gradients."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch

DEEPEST = 12  # factors between a loss and backward()


@dataclass
class Backward:
    """What the graph tells of a microbatch: the factors on its loss, how the loss was reduced, and over how many."""

    factors: list[torch.Tensor | float] = field(default_factory=list)
    reduction: str = "unknown"
    count: torch.Tensor | float | None = None


def read_graph(loss: torch.Tensor) -> Backward:
    """Read factors, reduction and count off the graph of a loss, down to the loss function itself."""
    entry = Backward()
    node = loss.grad_fn
    for _ in range(DEEPEST):
        name = node.name() if node is not None else ""
        if name in ("DivBackward0", "MulBackward0"):
            value = node._saved_other if node._saved_other is not None else node._saved_self
            if not isinstance(value, torch.Tensor) or value.numel() != 1:
                break
            value = value.detach()
            entry.factors.append(1.0 / value if name == "DivBackward0" else value)
        elif name in ("NllLossBackward0", "NllLoss2DBackward0"):
            entry.reduction = {0: "none", 1: "mean", 2: "sum"}.get(node._saved_reduction, "unknown")
            entry.count = node._saved_total_weight.detach()
            break
        elif name == "MeanBackward0":
            entry.reduction, entry.count = "mean", float(node._saved_self_sym_numel)
            break
        elif hasattr(node, "_saved_reduction"):
            entry.reduction = {0: "none", 1: "mean", 2: "sum"}.get(node._saved_reduction, "unknown")
            saved = getattr(node, "_saved_self", None)
            entry.count = float(saved.numel()) if isinstance(saved, torch.Tensor) else None
            break
        elif name not in ("ToCopyBackward0", "ViewBackward0", "SqueezeBackward0", "ReshapeAliasBackward0"):
            break
        node = next((next_node for next_node, _ in node.next_functions if next_node is not None), None)
    return entry


def fetch(values: list[Any]) -> list[float | None]:
    """Return the values as numbers, with one transfer for each device."""
    found: list[float | None] = [None] * len(values)
    by_device: dict[Any, list[int]] = {}
    for index, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            by_device.setdefault(value.device, []).append(index)
        elif value is not None:
            found[index] = float(value)
    for indices in by_device.values():
        stacked = torch.stack([values[i].detach().reshape(()).float() for i in indices]).tolist()
        for index, number in zip(indices, stacked, strict=True):
            found[index] = number
    return found
