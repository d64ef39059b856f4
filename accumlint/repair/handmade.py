"""Data for the leaf check of a loss that is written by hand: which leaf is an output, a target, an index or a mask."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from accumlint.harness.leaf import Leaf
from accumlint.repair.replay import MASK_NAME, Replay, UnmodelledError, mentions
from accumlint.repair.scope import Scope

NO_MODEL = re.compile(
    r"loss|criterion|nce|contrast|simil|dice|iou|tversky|corr|barlow|vicreg|mmd|cox|rank|pair|dist", re.I
)
MAKERS = frozenset(
    {"to", "cuda", "train", "eval", "compile", "from_pretrained", "from_config", "prepare", "create_model"}
)
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
    outputs = [name for name, what in names.items() if _is_output(what, replay.scope)]
    unknown = [what for name, what in names.items() if name not in outputs and "(" in what]
    if unknown:
        raise UnmodelledError(f"`{unknown[0][:60]}` is computed by an operation that is not replayed")
    if not outputs:
        raise UnmodelledError("no output of a model is seen in the loss")
    masks = [name for name in names if name not in outputs and _is_mask(name, names[name], count, replay)]
    shapes = INDEXED_SHAPES if replay.indices else EQUAL_SHAPES
    for output, target, mask in shapes:
        if (not masks and mask != target) or (replay.partial and len(output) == 1):
            continue
        for dtype in (
            ("bool",) if replay.selectors & set(masks) else ("float64", "bool", "int64") if masks else ("float64",)
        ):
            yield tuple(
                Leaf(name, "logits" if replay.indices else "values", output)
                if name in outputs
                else Leaf(name, "mask", mask, dtype=dtype)
                if name in masks
                else Leaf(name, "class_targets" if name in replay.indices else "float_targets", target)
                for name in names
            )


def _is_output(what: str, scope: Scope, depth: int = 0) -> bool:
    """Whether a part of the script is what a model returned, or a part of it; an unknown function is no model."""
    node: ast.expr = ast.parse(what, mode="eval").body
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    if isinstance(node, ast.Name):
        value = scope.value_of(node.id, scope.line)
        return value is not None and depth < 4 and _is_output(ast.unparse(value), scope, depth + 1)
    if not isinstance(node, ast.Call):
        return False
    parts = _dotted(node.func)
    if not parts or scope.canonical(node.func) or NO_MODEL.search(".".join(parts)):
        return False
    defined = (ast.FunctionDef, ast.AsyncFunctionDef)
    if any(isinstance(each, defined) and each.name == parts[-1] for each in ast.walk(scope.tree)):
        return False  # a function of the file that could not be replayed: it may compare examples
    if depth > 3 or any(_holds_output(each, scope, depth) for each in (*node.args, *(k.value for k in node.keywords))):
        return False  # so may what is given the output of a model
    made = scope.value_of(parts[0], scope.line)
    return made is None or (isinstance(made, ast.Call) and _makes_model(made))


def _holds_output(argument: ast.expr, scope: Scope, depth: int) -> bool:
    parts = (n for n in ast.walk(argument) if isinstance(n, (ast.Call, ast.Name)))
    return any(_is_output(ast.unparse(part), scope, depth + 1) for part in parts)


def _makes_model(call: ast.Call) -> bool:
    last = (_dotted(call.func) or [""])[-1]
    return last[:1].isupper() or last in MAKERS


def _dotted(node: ast.expr) -> list[str]:
    """The parts of a dotted name; nothing for any other expression."""
    if isinstance(node, ast.Name):
        return [node.id]
    if isinstance(node, ast.Attribute):
        inner = _dotted(node.value)
        return [*inner, node.attr] if inner else []
    return []


def _is_mask(name: str, what: str, count: str, replay: Replay) -> bool:
    """Whether a leaf selects what counts: it is named so, is multiplied with losses, or stands in the count."""
    if name in replay.indices:
        return False
    counts = mentions(count, name) and not count.endswith(".numel()")
    return name in replay.masks | replay.selectors or bool(MASK_NAME.search(what)) or counts


__all__ = ["drawings"]
