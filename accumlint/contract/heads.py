"""Model heads that swallow `num_items_in_batch` (ACC108), read off the syntax alone.

The Hugging Face Trainer looks at the signature of the unwrapped model's `forward`: with `**kwargs`, and without
`accepts_loss_kwargs = False`, it leaves the division to the model. It counts targets only in a batch whose "labels" are
a tensor: a head whose loss is made of other inputs, or of lists of boxes, is divided by the Trainer anyway.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from accumlint.apis.flagged_heads import FLAGGED
from accumlint.apis.heads import find_head
from accumlint.apis.language import Count
from accumlint.apis.registry import Registry
from accumlint.contract.classes import ClassView, FileNames, configured_steps
from accumlint.contract.label_loss import COUNT, Context, read_losses
from accumlint.contract.verdict import Clause, Confidence, Violation
from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.walk import all_statements, dotted, walk

LABELS = "labels"
FLAG = "accepts_loss_kwargs"
_BASE = re.compile(r"Pre[Tt]rainedModel$")
_BOXES = ("ForObjectDetection", "ForSegmentation", "ForInstanceSegmentation", "ForUniversalSegmentation")
_HEAD = re.compile(r"For[A-Z]\w+$|LMHeadModel$|DoubleHeadsModel$")


def check_heads(module: Module, registry: Registry) -> list[Violation]:
    """Every `forward` of a head that takes `**kwargs`, makes a mean of its labels and lets no count reach it."""
    candidates = list(_forwards(module))
    if not candidates:
        return []
    if _told_from_outside(module):
        return []
    names = FileNames.of(module)
    steps = configured_steps(module)
    found = (_check(names.view(each), forward, names, registry) for each, forward in candidates)
    return [replace(violation, steps=steps) for violation in found if violation is not None]


def _forwards(module: Module) -> Iterator[tuple[ir.Class, ir.Function]]:
    """Classes whose own `forward` takes labels and `**kwargs`."""
    for node in all_statements(module.body):
        if not isinstance(node, ir.Class):
            continue
        methods = [each for each in node.body if isinstance(each, ir.Function) and each.name == "forward"]
        if methods and _keywords(methods[-1]) and any(each.name == LABELS for each in methods[-1].parameters):
            yield node, methods[-1]


def _check(view: ClassView, forward: ir.Function, names: FileNames, registry: Registry) -> Violation | None:
    if not _is_head(view) or _tells_trainer(view) or _uses_count(forward) or _refuses_kwargs(forward):
        return None
    context = Context(names, view, registry, own_loss_is_mean=_own_loss_is_mean(view))
    reading = read_losses(forward, [LABELS], _keywords(forward), context)
    if reading.counted or not reading.means:
        return None
    unseen = [base for base in view.outside if not _is_root(base) and _model_like(base)]
    assumptions = tuple(f"{base.rpartition('.')[2]} does not set {FLAG} = False" for base in unseen)
    return Violation(
        Clause.SWALLOWED_ITEM_COUNT,
        forward.node,
        assumptions=assumptions,
        confidence=Confidence.ASSUMED if assumptions else Confidence.PROVED,
        other=reading.means[0],
    )


def _told_from_outside(module: Module) -> bool:
    """`model.accepts_loss_kwargs = ...`, `trainer.model_accepts_loss_kwargs = ...`: the file settles it itself."""
    return any(
        isinstance(target, ir.Attribute) and target.name in (FLAG, f"model_{FLAG}") and dotted(target.value) != "self"
        for node in all_statements(module.body)
        if isinstance(node, ir.Assign)
        for target in node.targets
    )


def _keywords(function: ir.Function) -> str | None:
    return next((each.name for each in function.parameters if each.kind == "**"), None)


def _is_head(view: ClassView) -> bool:
    """A `PreTrainedModel`, a class derived from a concrete head, or a mixin that finishes a model with `post_init`."""
    if any(_model_like(base) for base in view.outside):
        return True
    init = view.method("__init__")
    return init is not None and any(
        isinstance(node, ir.Call) and dotted(node.function) == "self.post_init" for node in walk(init)
    )


def _model_like(base: str) -> bool:
    name = base.rpartition(".")[2]
    if _BASE.search(name):
        return True
    comes_from = base.startswith(("transformers.", ".")) or ".modeling_" in base
    return comes_from and bool(_HEAD.search(name))


def _is_root(base: str) -> bool:
    return base.rpartition(".")[2] == "PreTrainedModel"


def _tells_trainer(view: ClassView) -> bool:
    """Whether the class says anything but True about loss kwargs, here or in a base that is known to."""
    if any(base.rpartition(".")[2] in FLAGGED for base in view.outside):
        return True
    if not view.mentions(FLAG):
        return False
    said = view.sets(FLAG)
    return not said or any(not (isinstance(value, ir.Constant) and value.value is True) for value in said)


def _uses_count(function: ir.Function) -> bool:
    """Whether the body names the count: a parameter, a key of the kwargs, an argument.

    To move it from one dictionary into another (`decoder_kwargs[COUNT] = kwargs.pop(COUNT)`) is no use.
    """
    idle: set[int] = set()
    for node in walk(function.body):
        if isinstance(node, ir.Assign) and isinstance(node.value, ir.Call) and _is_key(node.targets[0]):
            idle.update(id(part) for part in (*walk(node.targets[0]), *walk(node.value)))
        elif isinstance(node, ir.If) and isinstance(node.test, ir.Compare):
            idle.update(id(part) for part in walk(node.test))
    for node in walk(function.body):
        if id(node) in idle:
            continue
        if isinstance(node, ir.Name) and node.id == COUNT:
            return True
        if isinstance(node, ir.Constant) and node.value == COUNT:
            return True
        if isinstance(node, ir.Call) and any(argument.keyword == COUNT for argument in node.arguments):
            return True
    return False


def _is_key(target: ir.Expression) -> bool:
    return isinstance(target, ir.Subscript) and isinstance(target.index, ir.Constant) and target.index.value == COUNT


def _refuses_kwargs(function: ir.Function) -> bool:
    """`if kwargs: raise ...`: the count would be an error, not swallowed."""
    name = _keywords(function)
    for node in walk(function.body):
        if isinstance(node, ir.If) and any(isinstance(each, ir.Raise) for each in node.body):
            parts = list(walk(node.test))
            whole = isinstance(node.test, ir.Name) or any(
                isinstance(n, ir.Call) and dotted(n.function) == "len" for n in parts
            )
            if whole and any(isinstance(n, ir.Name) and n.id == name for n in parts):
                return True
    return False


def _own_loss_is_mean(view: ClassView) -> bool:
    """Whether `self.loss_function` is a mean over tensors of labels: not for boxes (the labels of a detection head are
    dictionaries, which the Trainer does not count), not for CTC (a sum by default), not if the file sets its own.
    """
    if any(view.sets(name) or view.method(name) for name in ("loss_function", "_loss_function")):
        return False
    if view.name.endswith(_BOXES):
        return False
    head = find_head(view.name)
    return head is None or (head.kind is not Count.DECLARED and head.suffix != "ForCTC")
