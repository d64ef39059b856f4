"""Two cheap gates before a file is read: words in its bytes, then its `ast`.

Both answer with a `Gate`: what the file could hold. They are conservative: a word is demanded only where a finding is
impossible without it. A bare `.step(` is a bad word (environments, profilers, progress bars, schedulers), but without
the letters "step" no optimizer steps in a file, and `backward` alone is not enough.

- LOOP: an update needs a backward pass: `backward` in any spelling (`loss.backward()`, `manual_backward`,
  `accelerator.backward`, `forward_backward_func`, `scaler.scale(loss).backward`), or a call that hides it behind a
  scaler object (timm, MAE: `loss_scaler(loss, optimizer, update_grad=...)`), and something named step.
- TRAINER: a method `compute_loss` or `training_step` that a trainer drives, or a loss function that it is given.
- HEAD: a model for the transformers library whose `forward` takes `**kwargs` and computes a loss without them
  (ACC108).

Measured by `benchmarks/gates.py TREE...`, which counts what each gate lets through and what it costs. Over the wheels
of transformers, trl, accelerate, lightning, torchtune, litgpt, simpletransformers, OpenNMT, ultralytics and open_clip
no file with an update of its own is lost (every file without LOOP that names `optimizer.step(`, `zero_grad(`, `.grad =`
or `autograd.grad(` was looked at: wrappers, docstrings and metrics); the byte gate costs 0.1 ms, the syntax gate 7 to
17 ms a 1,000 lines.
"""

from __future__ import annotations

import ast
import warnings
from enum import Flag

from accumlint.reading.recursion import no_collection


class Gate(Flag):
    """What a file could hold; falsy if nothing of interest."""

    NONE = 0
    LOOP = 1
    TRAINER = 2
    HEAD = 4
    ALL = 7


HIDDEN_BACKWARD = ("update_grad", "need_update", "loss_scaler")
"""Words of a call that runs the backward pass itself; keywords, but for the last, the usual name of such an object."""

TRAINER_METHODS = ("compute_loss", "training_step")
LOSS_FUNCTION = "compute_loss_func"
"""The argument by which a Trainer is given a function instead of a method."""

LOSS_NAMES = ("loss", "entropy", "criterion", "nll", "mse", "bce")
"""What the last name of a call that computes a loss holds, in lower case."""

_HEAD_WORDS = (b"**", b"def forward", b"label", b"loss")
_HIDDEN_WORDS = tuple(word.encode() for word in HIDDEN_BACKWARD)
_TRAINER_WORDS = tuple(word.encode() for word in TRAINER_METHODS)


def may_train(data: bytes) -> Gate:
    """What a file of these bytes (UTF-8 or another superset of ASCII) could hold. Costs `in` tests only."""
    gate = Gate.NONE
    if (b"backward" in data and b"step" in data) or any(word in data for word in _HIDDEN_WORDS):
        gate |= Gate.LOOP
    if any(word in data for word in _TRAINER_WORDS):
        gate |= Gate.TRAINER
    if all(word in data for word in _HEAD_WORDS) and (b"PreTrained" in data or b"transformers" in data):
        gate |= Gate.HEAD
    return gate


def parse(text: str) -> ast.Module | None:
    """The syntax tree of a text; None for one that `ast` refuses."""
    try:
        with no_collection(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def worth_reading(tree: ast.Module | None, gate: Gate = Gate.ALL) -> Gate:
    """Narrow `gate` by syntax. A text that `ast` refuses passes, so that `read_module` reports why."""
    if tree is None:
        return gate
    found = Gate.NONE
    pending: list[ast.AST] = [tree]
    while pending and found != gate:
        node = pending.pop()
        kind = type(node)
        if kind in _TELLING:
            found |= _gate_of(node) & gate
        if kind not in _LEAVES:
            pending.extend(ast.iter_child_nodes(node))
    return found


_TELLING = (ast.Attribute, ast.Call, ast.keyword, ast.ClassDef)
_LEAVES = (ast.Name, ast.Constant, ast.Load, ast.Store, ast.Import, ast.ImportFrom, ast.Pass)


def _gate_of(node: ast.AST) -> Gate:
    match node:
        case ast.Attribute(attr=name) | ast.Call(func=ast.Name(id=name)) if "backward" in name.lower():
            return Gate.LOOP
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if name in HIDDEN_BACKWARD:
            return Gate.LOOP
        case ast.keyword(arg=str(name)) if name in HIDDEN_BACKWARD:
            return Gate.LOOP
        case ast.keyword(arg=str(name)) if name == LOSS_FUNCTION:
            return Gate.TRAINER
        case ast.ClassDef():
            return _gate_of_class(node)
        case _:
            return Gate.NONE


def _gate_of_class(node: ast.ClassDef) -> Gate:
    gate = Gate.NONE
    for method in node.body:
        if isinstance(method, ast.FunctionDef | ast.AsyncFunctionDef):
            if method.name in TRAINER_METHODS:
                gate |= Gate.TRAINER
            elif method.name == "forward" and method.args.kwarg is not None and _calls_bare_loss(method):
                gate |= Gate.HEAD
    return gate


def _calls_bare_loss(function: ast.AST) -> bool:
    """Is a loss called, and does no such call receive a `**mapping`? An auxiliary loss beside one that does is fine."""
    found = False
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), keywords=keywords):
                lower = name.lower()
                if any(word in lower for word in LOSS_NAMES):
                    if any(each.arg is None for each in keywords):
                        return False
                    found = True
    return found
