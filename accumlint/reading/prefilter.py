"""Three cheap gates before a file is read: words in its bytes, then where they stand in its text, then its `ast`.

All answer with a `Gate`: what the file could hold. They are conservative: a word is demanded only where a finding is
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
import re
import warnings
from collections.abc import Iterator
from enum import Flag
from functools import cache

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

BACKWARDS = ("backward", "manual_backward")
"""Methods that run a backward pass; what else has the word in its name does only where it is called."""

TRAINER_METHODS = ("compute_loss", "training_step")
LOSS_FUNCTION = "compute_loss_func"
"""The argument by which a Trainer is given a function instead of a method."""

LOSS_NAMES = ("loss", "entropy", "criterion", "nll", "mse", "bce")
"""What the last name of a call that computes a loss holds, in lower case."""

LABELS = "labels"
"""The parameter of a head by which the Trainer counts targets."""

_HEAD_WORDS = (b"**", b"def forward", b"labels", b"loss")
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


_BETWEEN = r"(?:[\s\\]|#[^\r\n]*)*"
_NAMED_BACKWARD = re.compile(rf"\.{_BETWEEN}(?:manual_)?backward\b|backward\w*[\s\\)]*\(", re.IGNORECASE)
"""An attribute or a call, as the syntax gate wants it; prose (`for backward compatibility`) has neither."""

_RUN_BACKWARD = re.compile(rb"\b(?:manual_)?backward[\s\\)]*\(|" + b"|".join(_HIDDEN_WORDS))
_DEFINED = re.compile(r"\bdef[ \t]+\w*$|\bsave_for_$")


_DERIVES = re.compile(
    rb"^[ \t]*class[ \t]+\w+[ \t]*\([^)\n]{0,200}?\b\w*"
    rb"(?:Trainer|Runner|Solver|Learner|Trial|Experiment|Algorithm|Workspace|TrainLoop|TrainingLoop)\w*[ \t]*[,)\[]",
    re.MULTILINE,
)


def derives_trainer(data: bytes) -> bool:
    """Whether a file derives a class from one that is named like a trainer, which may hold its training loop."""
    return b"class " in data and _DERIVES.search(data) is not None


def runs_backward(data: bytes) -> bool:
    """Whether code of these bytes calls a backward, or what hides one: the syntax that a region is found by."""
    if b"backward" not in data and not any(word in data for word in _HIDDEN_WORDS):
        return False
    return any(
        _is_use(data[max(at.start() - 40, 0) : at.start()].decode("latin-1")) for at in _RUN_BACKWARD.finditer(data)
    )


def _names_backward(text: str) -> bool:
    return any(_is_use(text[max(at.start() - 40, 0) : at.start()]) for at in _NAMED_BACKWARD.finditer(text))


def _is_use(before: str) -> bool:
    """By what stands before the word: `def backward(` and `ctx.save_for_backward(` make up an autograd function."""
    return not _DEFINED.search(before)


def worth_parsing(text: str, gate: Gate) -> Gate:
    """Narrow `gate` by the places of its words in the text, so that most files need no tree."""
    if gate & Gate.LOOP and not (_names_backward(text) or any(word in text for word in HIDDEN_BACKWARD)):
        gate &= ~Gate.LOOP
    if gate & Gate.HEAD and not any(map(_is_head, _forwards(text))):
        gate &= ~Gate.HEAD
    return gate


_FORWARD = re.compile(r"^([ \t\f]+)(?:async[ \t]+)?def forward\b", re.MULTILINE)
_LOSS_WORD = re.compile("|".join(LOSS_NAMES), re.IGNORECASE)


def _forwards(text: str) -> Iterator[str]:
    """The source of each method `forward` that could be a head's, with what follows it up to the next definition."""
    text = text.replace("\r\n", "\n").replace("\r", "\n") if "\r" in text else text
    for match in _FORWARD.finditer(text):
        ends = (end.start() for end in _definitions(len(match[1])).finditer(text, match.end()))
        found = next((found for end in ends if not _ends_in_text(found := text[match.start() : end])), None)
        found = text[match.start() :] if found is None else found
        if "**" in found and LABELS in found and _LOSS_WORD.search(found):
            yield found


@cache
def _definitions(depth: int) -> re.Pattern[str]:
    """The start of a definition with at most that much white space before it."""
    return re.compile(rf"^[ \t\f]{{0,{depth}}}(?:(?:async[ \t]+)?def\b|class\b|@\w)", re.MULTILINE)


def _ends_in_text(source: str) -> bool:
    """Whether a long string is still open at the end: what looks like a definition then is text."""
    return source.count('"""') % 2 == 1 or source.count("'''") % 2 == 1


def _is_head(method: str) -> bool:
    """Whether the source of a method is a head's; one that is no Python by itself may be."""
    tree = parse(f"class _:\n{method}")
    return tree is None or bool(worth_reading(tree, Gate.HEAD))


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
        case ast.Attribute(attr=name) if name in BACKWARDS:
            return Gate.LOOP
        case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name)) if _may_run_backward(name):
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


def _may_run_backward(name: str) -> bool:
    """By the name of what is called; to save a tensor for the backward pass is no backward pass."""
    return "backward" in name.lower() and name != "save_for_backward"


def _gate_of_class(node: ast.ClassDef) -> Gate:
    gate = Gate.NONE
    for method in node.body:
        if isinstance(method, (ast.FunctionDef, ast.AsyncFunctionDef)):
            if method.name in TRAINER_METHODS:
                gate |= Gate.TRAINER
            elif method.name == "forward" and _takes_labels(method.args) and _calls_bare_loss(method):
                gate |= Gate.HEAD
    return gate


def _takes_labels(arguments: ast.arguments) -> bool:
    """Whether a `forward` has the parameter that the Trainer counts, and `**kwargs` beside it."""
    plain = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
    return arguments.kwarg is not None and any(each.arg == LABELS for each in plain)


def _calls_bare_loss(function: ast.AST) -> bool:
    """Is a loss called, and does no such call receive a `**mapping`? An auxiliary loss beside one that does is fine.

    A difference to some power is a loss that is written out.
    """
    found = False
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(attr=name) | ast.Name(id=name), keywords=keywords):
                lower = name.lower()
                if any(word in lower for word in LOSS_NAMES):
                    if any(each.arg is None for each in keywords):
                        return False
                    found = True
            case ast.BinOp(op=ast.Pow(), left=ast.BinOp(op=ast.Sub())):
                found = True
    return found
