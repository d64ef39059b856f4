"""The leaf check of a repair: is the inserted count the loss's own normaliser?

Mean, sum and count are rebuilt as small torch programs on drawn data (`replay.py`), and `harness.leaf` asks torch. The
shape of the data is not known, so every usual shape is tried: each on which the programs run at all must hold.
"""

from __future__ import annotations

import ast
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

from accumlint.harness.leaf import Leaf, LeafPair, LeafReport, check_pair
from accumlint.harness.runner import Runner, Status
from accumlint.reading.program import Module
from accumlint.repair import handmade
from accumlint.repair.programs import WAYS, sizes_of
from accumlint.repair.replay import MASK_NAME, LossCall, Replay, UnmodelledError
from accumlint.repair.scope import Scope, changes_between

Shape = tuple[str | int, ...]
INDEXED = frozenset({"cross_entropy", "nll_loss"})
ROWED = {
    "triplet_margin_loss": (("B", "D"), ("B", "D")),
    "cosine_embedding_loss": (("B", "D"), ("B",)),
    "multi_margin_loss": (("B", "C"), ("B",)),
    "multilabel_soft_margin_loss": (("B", "C"), ("B", "C")),
}
"""Losses with one shape of the inputs and of the targets."""
DRAWN = {
    "triplet_margin_loss": {"anchor": "values", "positive": "values", "negative": "values"},
    "cosine_embedding_loss": {"input1": "values", "input2": "values", "target": "binary_targets"},
    "margin_ranking_loss": {"input1": "values", "input2": "values", "target": "binary_targets"},
    "gaussian_nll_loss": {"input": "values", "target": "float_targets", "var": "probabilities"},
    "hinge_embedding_loss": {"input": "values", "target": "binary_targets"},
    "multi_margin_loss": {"input": "values", "target": "class_targets"},
    "multilabel_soft_margin_loss": {"input": "values", "target": "binary_targets"},
}
"""What is drawn for the parameters of losses that are not called with one output and one target of its shape."""
NOT_RUN = tuple(status.value for status in Status if status not in (Status.RAISED, Status.OK))
MASK_LENGTH = re.compile(r"len", re.I)
MOST_KINDS = 3
SMOOTHING = 0.1  # of labels, where the script does not say it
FACTOR = 0.37  # what a loss is weighed by, where the script does not say it
CLASS_COUNT = re.compile(r"vocab|class|label|num_tags|n_out", re.I)
INDEXED_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    (("B", "C"), ("B",)),
    (("B", "T", "C"), ("B", "T")),
    (("B", "U", "C"), ("B", "T")),
    (("B", "C", "T"), ("B", "T")),
    (("B", "C", "T", "D"), ("B", "T", "D")),
)
EQUAL_SHAPES: tuple[tuple[Shape, Shape], ...] = (
    (("B",), ("B",)),
    (("B", "D"), ("B", "D")),
    (("B", "T", "D"), ("B", "T", "D")),
)
SQUEEZED_SHAPES: tuple[tuple[Shape, Shape], ...] = ((("B", 1), ("B",)),)


class ObligationLike(Protocol):
    """What `plan.Obligation` has; texts are Python expressions of the script."""

    @property
    def site(self) -> Any: ...
    @property
    def mean_text(self) -> str: ...
    @property
    def sum_text(self) -> str: ...
    @property
    def count_text(self) -> str: ...
    @property
    def declared(self) -> str: ...


@dataclass(frozen=True, slots=True)
class LeafProblem:
    """Why the leaves are not checked, or do not hold, in one line."""

    reason: str
    wrong: bool = False  # torch says that the count is not the normaliser


@dataclass(frozen=True, slots=True)
class LeavesHold:
    reports: tuple[LeafReport, ...]
    assumptions: tuple[str, ...] = ()


def check_leaves(before: Module, after: Module, obligations: Sequence[Any], runner: Runner) -> LeavesHold | LeafProblem:
    """Check every obligation; the first that does not hold, or cannot be rebuilt, is the answer."""
    old, new = ast.parse("\n".join(before.lines)), ast.parse("\n".join(after.lines))
    reports: list[LeafReport] = []
    assumptions: dict[str, None] = {}
    for each in obligations:
        node = each.site if isinstance(each.site, int) else each.site.node
        line = before.syntax.span(node).line if node >= 0 else 0
        try:
            texts = _Texts(old, new, line, each.mean_text, each.sum_text, each.count_text, before.filename)
            found = _check(texts, runner)
        except (UnmodelledError, SyntaxError, KeyError, ValueError) as problem:
            return LeafProblem(str(problem) or type(problem).__name__)
        if isinstance(found, LeafProblem):
            return found
        reports += found.reports
        assumptions.update(dict.fromkeys(found.assumptions))
    return LeavesHold(tuple(reports), tuple(assumptions))


@dataclass(frozen=True, slots=True)
class _Texts:
    old: ast.Module
    new: ast.Module
    line: int
    mean: str
    sum: str
    count: str
    filename: str


def _check(texts: _Texts, runner: Runner) -> LeavesHold | LeafProblem:
    scope = Scope.at(texts.old, texts.line or _line_of(texts.old, texts.mean, ""))
    replay = Replay(scope, filename=texts.filename)
    place = replay.scope.place
    replay.home = Scope.at(texts.new, _line_of(texts.new, texts.count, place)).place
    mean = replay.text(_expression(texts.mean))
    lines = [_line_of(texts.new, text, place) for text in (texts.sum or texts.count, texts.count)]
    if not all(lines):
        raise UnmodelledError("the sum or the count is not in the repaired text as it was planned")
    replay.scope = Scope.at(texts.new, lines[0])
    total = replay.text(_expression(texts.sum)) if texts.sum else None
    replay.scope = Scope.at(texts.new, lines[1])
    count = replay.text(_expression(texts.count))
    together = Scope.at(texts.new, lines[0]).place == replay.scope.place
    span = (min(lines), max(lines)) if together else (0, 1 << 30)  # the loss is in a helper: anywhere in the loop
    changed = changes_between(replay.scope, *span)
    if not together:
        changed |= changes_between(Scope.at(texts.new, lines[0]), 0, lines[0])
    if touched := replay.seen & changed:
        raise UnmodelledError(f"`{sorted(touched)[0]}` is changed in place between the loss and the count")
    held: list[LeafReport] = []
    assumptions: list[str] = []
    reason = ""
    restricted = bool(replay.calls) and _is_squeezed(replay)
    lists: set[bool] = set()  # whether the outputs were lists where it held
    for (leaves, constants), sizes, split in itertools.product(
        _ways(replay, count, restricted), sizes_of(replay.numbers), (False, True)[: 1 + bool(replay.lists)]
    ):
        bodies = (mean, total, count) if not split else _split(replay, mean, total, count)
        report = check_pair(_pair(replay, bodies, leaves, constants), runner, sizes=sizes)
        raised = report.reason.startswith(Status.RAISED.value)
        if raised and "out of bounds" in report.reason:
            leaves = tuple(replace(leaf, ignore_index=None) for leaf in leaves)
            report = check_pair(_pair(replay, bodies, leaves, constants), runner, sizes=sizes)
            raised = report.reason.startswith(Status.RAISED.value)
            assumptions.append(f"no target is an ignored label (`{texts.count}` would fail on it)")
        if not raised and not report.drawings and report.reason.startswith(NOT_RUN):
            raise UnmodelledError(f"the check did not end ({report.reason})")
        if raised or (not replay.calls and math.inf in report.errors.values()):
            reason = reason or report.reason
            continue
        if not report.holds:
            return LeafProblem(f"`{texts.count}` is not what the loss divides by ({report.reason})", True)
        held.append(report)
        lists.add(split)
    ways = frozenset[str]().union(*(report.ways for report in held))
    if held and (untaken := sorted(replay.ways - ways)):
        raise UnmodelledError(f"a branch of the loss is not taken on drawn data ({untaken[0]})")
    if held and len(lists) < 1 + bool(replay.lists):
        raise UnmodelledError(f"`{texts.mean[:60]}` runs on tensors or on lists of them, not on both")
    if not held:
        raise UnmodelledError(reason or f"`{texts.mean[:60]}` runs on no usual shape of data")
    if restricted:
        assumptions.append("what is squeezed has a last dimension of 1, and targets have one dimension")
    if not replay.calls:
        assumptions.append("outputs and targets of the loss have one shape")
    if replay.partial:
        assumptions.append("what is reduced over one dimension has another one for the batch")
    if replay.small:
        assumptions.append(f"what is added to the divisor ({replay.small:g}) is taken for 0")
    if any(leaf.kind == "mask" for leaf in leaves):
        assumptions.append("masks hold zeros and ones")
    return LeavesHold((max(held, key=lambda report: report.error),), tuple(dict.fromkeys(assumptions)))


def _expression(text: str) -> ast.expr:
    return ast.parse(text.strip(), mode="eval").body


def _line_of(tree: ast.Module, text: str, place: str) -> int:
    """The last line on which an expression stands, in the function of that name if it stands there; else 0."""
    if not text:
        return 0
    wanted = ast.dump(_expression(text))
    kind = type(_expression(text))
    lines = [n.lineno for n in ast.walk(tree) if isinstance(n, kind) and ast.dump(n) == wanted]
    near = [line for line in lines if Scope.at(tree, line).place == place]
    return max(near or lines, default=0)


Bodies = tuple[str, str | None, str]  # of the mean, the sum and the count


def _pair(replay: Replay, bodies: Bodies, leaves: tuple[Leaf, ...], constants: dict[str, object]) -> LeafPair:
    names = ", ".join(leaf.name for leaf in leaves)
    lines = ["import torch", *(f"{name} = {value!r}" for name, value in constants.items())]
    lines += [WAYS, *replay.programs.values()] if replay.programs else []
    for name, body in zip(("mean_loss", "sum_loss", "count"), bodies, strict=True):
        if body is not None:
            lines.append(f"def {name}({names}):\n    return {body}")
    return LeafPair("\n".join(lines) + "\n", leaves, sum=None if bodies[1] is None else "sum_loss")


def _split(replay: Replay, *bodies: str | None) -> Bodies:
    """The same programs with outputs in pieces along their second dimension, as some heads return them."""
    mean, total, count = (
        None if body is None else re.sub(rf"=({'|'.join(replay.lists)})\b(?=[,)])", r"=[*\1.split(2, dim=1)]", body)
        for body in bodies
    )
    assert mean is not None
    assert count is not None
    return mean, total, count


# ------------------------------------------------------------------------------------------------------------ data


def _is_squeezed(replay: Replay) -> bool:
    """`model(x).squeeze(-1)` beside bare targets: the output is a column, one number an example."""
    call = replay.calls[0]
    roots = call.roots.get("input", [])
    return call.name not in INDEXED and bool(roots) and roots[0] in replay.squeezed


def _ways(replay: Replay, count: str, restricted: bool) -> Iterator[tuple[tuple[Leaf, ...], dict[str, object]]]:
    """Every way to draw the leaves, with the constants beside them."""
    if replay.calls:
        yield from _drawings(replay, restricted)
        return
    for leaves in handmade.drawings(replay, count):
        yield leaves, {}


def _drawings(replay: Replay, restricted: bool) -> Iterator[tuple[tuple[Leaf, ...], dict[str, object]]]:
    """Every way to draw the leaves: the shapes of the losses, and masks as floats, bools or integers."""
    names = {name: what for what, name in replay.leaves.items()}
    for smoothing in (SMOOTHING, 0.0) if replay.programs else (SMOOTHING,):
        yield from _drawn_with(replay, restricted, names, _constants(replay, names, smoothing))


def _drawn_with(
    replay: Replay, restricted: bool, names: dict[str, str], constants: dict[str, object]
) -> Iterator[tuple[tuple[Leaf, ...], dict[str, object]]]:
    kinds = list({call.name: None for call in replay.calls})
    if len(kinds) > MOST_KINDS:
        raise UnmodelledError("many kinds of losses in one expression")
    for pairs in itertools.product(*(_shapes_of(kind, restricted) for kind in kinds)):
        shapes = dict(zip(kinds, pairs, strict=True))
        if any(replay.partial and len(shapes[kind][0]) == 1 and kind not in INDEXED for kind in kinds):
            continue
        roles: dict[str, Leaf] = {}
        for call in replay.calls:
            found = _roles(replay, call, *shapes[call.name], names, constants)
            roles |= {name: leaf for name, leaf in found.items() if name not in roles}
        inputs, targets = shapes[replay.calls[0].name]
        others = [name for name in names if name not in roles and name not in constants]
        picked = replay.selectors & set(others)
        dtypes = ("bool",) if picked else ("float64", "bool", "int64") if others else ("float64",)
        masked = (targets, targets[:-1]) if others and replay.partial and len(targets) > 2 else (targets,)
        for dtype, over in itertools.product(dtypes, masked):
            rest = {name: _other(name, names[name], inputs, over, dtype, replay) for name in others}
            drawn = tuple((roles | rest)[name] for name in names if name not in constants)
            if all(len(leaf.shape) >= replay.ranks.get(leaf.name, 0) for leaf in drawn):  # else a batch would be cut
                yield drawn, constants


def _shapes_of(name: str, restricted: bool) -> tuple[tuple[Shape, Shape], ...]:
    """The usual shapes of the input and the target of a loss."""
    if name == "ctc_loss":
        return ((("B", 12, "C"), ("B", 4)), ((12, "B", "C"), ("B", 4)))
    if name in INDEXED:
        return INDEXED_SHAPES
    if name in ROWED:
        return (ROWED[name],)
    shapes = SQUEEZED_SHAPES if restricted else EQUAL_SHAPES
    if name == "kl_div":  # distributions over the last dimension: a batch of numbers is none
        shapes = tuple(pair for pair in shapes if len(pair[0]) > 1)
    return shapes


def _constants(replay: Replay, names: dict[str, str], smoothing: float) -> dict[str, object]:
    found: dict[str, object] = {}
    for call in replay.calls:
        for parameter, value in (("ignore_index", 0), ("label_smoothing", smoothing)):
            for root in call.roots.get(parameter, []):
                found[root] = value
    for root in replay.factors:
        found.setdefault(root, FACTOR)
    used = {root for call in replay.calls for roots in call.roots.values() for root in roots[:1]}
    for name, what in names.items():
        if name not in found and name not in used and CLASS_COUNT.search(what.rpartition(".")[2]) and "size" in what:
            found[name] = 5
    return found


def _roles(
    replay: Replay, call: LossCall, inputs: Shape, targets: Shape, names: dict[str, str], constants: dict[str, object]
) -> dict[str, Leaf]:
    found: dict[str, Leaf] = {}

    def first(parameter: str) -> str:
        roots = [root for root in call.roots.get(parameter, []) if root not in constants]
        if not roots:
            raise UnmodelledError(f"the {parameter} of {call.name} is not seen")
        direct = [root for root in roots if not MASK_NAME.search(names[root])] or roots
        return direct[0]

    if call.name == "ctc_loss":
        found[first("log_probs")] = Leaf(first("log_probs"), "logits", inputs)
        found[first("targets")] = Leaf(first("targets"), "class_targets", targets, first_class=1)
        for parameter, low, high in (("input_lengths", 10, 12), ("target_lengths", 1, 4)):
            own = call.roots.get(parameter, [])
            for root in own:
                alone = parameter == "target_lengths" or (len(own) == 1 and MASK_LENGTH.search(names[root]))
                if root not in found and root not in constants and alone:
                    found[root] = Leaf(root, "lengths", ("B",), shortest=low, longest=high)
        return found
    if call.name in DRAWN:
        for parameter, kind in DRAWN[call.name].items():
            if call.roots.get(parameter):
                shape = targets if "target" in parameter else inputs
                root = first(parameter)
                found.setdefault(root, Leaf(root, kind, shape))
        return found
    kinds = {"kl_div": ("log_probabilities", "probabilities"), "nll_loss": ("log_probabilities", "class_targets")}
    usual = ("logits", "class_targets") if call.name in INDEXED else ("values", "float_targets")
    input_kind, target_kind = kinds.get(call.name, usual)
    if call.name == "binary_cross_entropy_with_logits":
        target_kind = "binary_targets"
    if call.name == "binary_cross_entropy":
        raise UnmodelledError("binary_cross_entropy needs probabilities that carry gradient")
    source = first("input")
    found[source] = Leaf(source, input_kind, inputs, class_dim=1 if len(inputs) > 1 and inputs[1] == "C" else -1)
    ignored = call.options.get("ignore_index", 0 if call.roots.get("ignore_index") else -100)
    target = first("target")
    if target_kind == "class_targets":
        index = int(str(ignored))
        found[target] = Leaf(target, target_kind, targets, ignore_index=index, first_class=1 if index == 0 else 0)
    else:
        found[target] = Leaf(target, target_kind, targets)
    for root in call.roots.get("weight", []):
        if root not in found and call.name in INDEXED:
            found[root] = Leaf(root, "class_weights", ("C",))
    return found


def _other(name: str, what: str, inputs: Shape, targets: Shape, dtype: str, replay: Replay) -> Leaf:
    """A leaf that the loss call does not hold: a mask if it multiplies or is named so, else a model's input."""
    if name in replay.masks or MASK_NAME.search(what):
        return Leaf(name, "mask", targets, dtype=dtype)
    if replay.calls[0].name == "ctc_loss":
        return Leaf(name, "float_targets", tuple(size for size in inputs if size != "C"))
    return Leaf(name, "mask", targets, dtype=dtype)


__all__ = ["LeafProblem", "LeavesHold", "ObligationLike", "check_leaves"]
