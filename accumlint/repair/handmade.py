"""Data for the leaf check of a loss that is written by hand: which leaf is an output, a target, an index or a mask."""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.harness.leaf import Leaf
from accumlint.repair.replay import MASK_NAME, Replay, UnmodelledError, mentions

Shape = tuple[str | int, ...]
INDEXED_SHAPES: tuple[tuple[Shape, Shape, Shape], ...] = (
    (("B", "C"), ("B",), ("B",)),
    (("B", "T", "C"), ("B", "T"), ("B", "T")),
)
EQUAL_SHAPES: tuple[tuple[Shape, Shape, Shape], ...] = (
    (("B",), ("B",), ("B",)),
    (("B", "D"), ("B", "D"), ("B", "D")),
    (("B", "T", "D"), ("B", "T", "D"), ("B", "T", "D")),
    (("B", "T", "D"), ("B", "T", "D"), ("B", "T")),
    (("B", "T", "D"), ("B", "T", "D"), ("B", "T", 1)),
    (("B", "D"), ("B", "D"), ("B",)),
)
"""Of the outputs, the targets and the masks."""


def drawings(replay: Replay, count: str) -> Iterator[tuple[Leaf, ...]]:
    """Every way to draw the leaves of a loss that calls no loss of a library; `count` is the text of its count."""
    names = {name: what.partition(": ")[2] for what, name in replay.leaves.items()}
    outputs = [name for name, what in names.items() if "(" in what]
    if not outputs:
        raise UnmodelledError("no output of a model is seen in the loss")
    masks = [name for name in names if name not in outputs and _is_mask(name, names[name], count, replay)]
    shapes = INDEXED_SHAPES if replay.indices else EQUAL_SHAPES
    for output, target, mask in shapes:
        if not masks and mask != target:
            continue
        for dtype in ("float64", "bool", "int64") if masks else ("float64",):
            yield tuple(
                Leaf(name, "logits" if replay.indices else "values", output)
                if name in outputs
                else Leaf(name, "mask", mask, dtype=dtype)
                if name in masks
                else Leaf(name, "class_targets" if name in replay.indices else "float_targets", target)
                for name in names
            )


def _is_mask(name: str, what: str, count: str, replay: Replay) -> bool:
    """Whether a leaf selects what counts: it is named so, is multiplied with losses, or stands in the count."""
    if name in replay.indices:
        return False
    return name in replay.masks or bool(MASK_NAME.search(what)) or mentions(count, name)


__all__ = ["drawings"]
