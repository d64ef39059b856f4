"""The obligations of a repaired text, read off the text itself and not off the plan that made it.

Every expression that is added to (or makes up) a number by which a loss or a gradient is divided is a count that was
inserted, and every loss that reaches a step is what it must be the normaliser of.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from accumlint.contract.judge import Judged
from accumlint.reading.program import Module
from accumlint.repair.scope import Scope
from accumlint.semantics.trace import BACKWARD

MULTIPLIES = frozenset({"div_", "mul_", "_foreach_div_", "_foreach_mul_", "div", "mul"})
KEEPS = frozenset({"max", "min", "float", "int", "clamp", "clamp_min", "item", "where", "maximum"})
SUMS_RANKS = frozenset({"reduce", "all_reduce", "gather", "all_gather"})
TENSORS = frozenset({"torch.tensor", "torch.as_tensor", "torch.stack"})
OF_RANKS = frozenset({"num_processes", "gradient_accumulation_steps", "world_size", "dp_world_size"})
"""Attributes of a framework's object that are no counts, and neither is the object."""


@dataclass(frozen=True, slots=True)
class Derived:
    """As `plan.Obligation`, but derived: `site` is the node of the loss in the original (-1: there is none)."""

    site: int
    mean_text: str
    sum_text: str
    count_text: str
    kind: str = "derived"
    arguments: dict[str, str] = field(default_factory=dict)
    declared: str = ""


def derive(before: Module, old: Sequence[Judged], after: Module, new: Sequence[Judged]) -> tuple[Derived, ...]:
    """One obligation for each loss of the repaired loops and each count that is inserted there."""
    found: list[Derived] = []
    tree = ast.parse("\n".join(after.lines))
    for judged in new:
        was = next((each for each in old if each.result.region.name == judged.result.region.name), None)
        sums = _losses(after, judged)
        means = _losses(before, was) if was is not None else []
        for place, (_, line, text) in enumerate(sums):
            site, _, mean = means[place] if place < len(means) else (-1, 0, text)
            for count in dict.fromkeys(counts_of(tree, line)):
                found.append(Derived(site, mean, text, count))
    return tuple(found)


def other_count(before: Module, after: Module, obligations: Iterable[Any]) -> str:
    """Whether the repaired text divides by another count than the plan says, in one line; "" if it does not.

    What the original already divided by (the mean of what it logs) is not what was inserted.
    """
    old, new = ast.parse("\n".join(before.lines)), ast.parse("\n".join(after.lines))
    planned = [ast.parse(each.count_text.strip(), mode="eval").body for each in obligations]
    texts = {ast.unparse(each) for each in planned}
    for count in planned:
        wanted = ast.dump(count)
        lines = [n.lineno for n in ast.walk(new) if isinstance(n, type(count)) and ast.dump(n) == wanted]
        if not lines:
            return "the count is not in the repaired text"
        found = set(counts_of(new, lines[-1]))
        if ast.unparse(count) not in found:
            return "the count is not in what the repaired text divides by"
        place = Scope.at(new, lines[-1]).place
        known = {text for line in _lines_of_place(old, place) for text in counts_of(old, line)}
        if other := sorted(found - texts - known):
            return f"the repaired text also counts `{other[0]}`"
    return ""


def mispaired(after: Module, obligations: Iterable[Any]) -> str:
    """Where losses have counts of their own: which sum is divided by another's count, in one line; "" if none is.

    The interpreter knows one number of targets for a microbatch, so that it cannot tell one count from another.
    """
    groups: dict[str, set[str]] = {}
    for each in obligations:
        if each.sum_text:  # else a branch of a loss, whose whole is multiplied
            groups.setdefault(_plain(each.sum_text), set()).add(_plain(each.count_text))
    if len(groups) < 2 or len({frozenset(counts) for counts in groups.values()}) < 2:
        return ""
    tree = ast.parse("\n".join(after.lines))
    for total, counts in groups.items():
        divisions = list(_divisions_of(tree, total))
        if not divisions:
            return f"which count divides `{total}` is not plain"
        for division in divisions:
            scope = Scope.at(tree, division.lineno)
            body: ast.AST = scope.owner if scope.owner is not None else scope.body
            if set(_counts_from(scope, body, _names(division.right))) != counts:
                return f"`{total}` is not divided by its own count"
    return ""


def _plain(text: str) -> str:
    return ast.unparse(ast.parse(text.strip(), mode="eval").body)


def _divisions_of(tree: ast.Module, total: str) -> Iterator[ast.BinOp]:
    """The innermost divisions by names of a sum, or of the name that is given to it."""
    divisions = [n for n in ast.walk(tree) if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Div)]
    shown = {total} | {
        ast.unparse(n.targets[0])
        for n in ast.walk(tree)
        if isinstance(n, ast.Assign) and len(n.targets) == 1 and ast.unparse(n.value) == total
    }
    for division in divisions:
        node: ast.expr = division.left
        factors = [node]
        while factors:
            node = factors.pop()
            if ast.unparse(node) in shown:
                yield division
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
                factors += [node.left, node.right]


def _lines_of_place(tree: ast.Module, place: str) -> list[int]:
    """A line in each function of that name; the first of the module where there is none."""
    starts = [node.lineno for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    return [line for line in (0, *starts) if Scope.at(tree, line).place == place]


def _losses(module: Module, judged: Judged) -> list[tuple[int, int, str]]:
    """(node, line, text) of the statement's value that makes each loss, in the order of the text."""
    tree = ast.parse("\n".join(module.lines))
    nodes = {
        site.node
        for trace in judged.result.default
        for event in trace.events
        if event.kind == BACKWARD and event.form is not None
        for site, _ in event.form.terms
    }
    found = []
    for node in sorted(nodes):
        line = module.syntax.span(node).line
        value = _statement_value(tree, line)
        if value is not None:
            found.append((node, line, ast.unparse(_undivided(value))))
    return found


def _statement_value(tree: ast.Module, line: int) -> ast.expr | None:
    """What the statement on a line computes: the right side of an assignment, or what `.backward()` is called on."""
    best: ast.expr | None = None
    for node in ast.walk(tree):
        if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.Expr, ast.AugAssign, ast.Return)):
            continue
        if node.value is not None and node.lineno <= line <= (node.end_lineno or 0):
            best = node.value
    while isinstance(best, ast.Call) and isinstance(best.func, ast.Attribute) and best.func.attr == "backward":
        best = best.func.value
    return best


def _undivided(value: ast.expr) -> ast.expr:
    """`loss / k` without its division by a plain name or number of the configuration."""
    while isinstance(value, ast.BinOp) and isinstance(value.op, ast.Div) and _is_plain(value.right):
        value = value.left
    return value


def _is_plain(node: ast.expr) -> bool:
    return isinstance(node, (ast.Constant, ast.Name)) or (
        isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
    )


def counts_of(tree: ast.Module, line: int) -> Iterator[str]:
    """The texts of the counts that are inserted around a line: in its function, or anywhere in its class."""
    scope = Scope.at(tree, line)
    body: ast.AST = scope.owner if scope.owner is not None else scope.body
    yield from _counts_from(scope, body, _divisors(body))


def _counts_from(scope: Scope, body: ast.AST, names: set[str]) -> Iterator[str]:
    """The texts of the counts that names are made of."""
    names = set(names)
    done: set[str] = set()
    while names - done:
        name = sorted(names - done)[0]
        done.add(name)
        for value, adds in _given_to(body, name):
            found, follow = _read(scope, value, adds)
            yield from found
            names |= follow - done


def _divisors(body: ast.AST) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(body):
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Div, ast.FloorDiv)):
            names |= _names(node.right)
        elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Div):
            names |= _names(node.value)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in MULTIPLIES:
            for argument in node.args:
                names |= _names(argument)
    return names


def _names(node: ast.expr) -> set[str]:
    """Plain names, and attributes of `self`, in an expression; a length is no count of targets that is added up."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "len":
        return set()
    owners = {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute) and n.attr in OF_RANKS}
    owners |= {id(n) for each in ast.walk(node) if isinstance(each, ast.IfExp) for n in ast.walk(each.test)}
    found = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and n.id != "self" and id(n) not in owners}
    return found | {
        ast.unparse(n) for n in ast.walk(node) if isinstance(n, ast.Attribute) and ast.unparse(n.value) == "self"
    }


def _given_to(body: ast.AST, name: str) -> Iterator[tuple[ast.expr, bool]]:
    for node in ast.walk(body):
        if isinstance(node, ast.AugAssign) and ast.unparse(node.target) == name:
            yield node.value, isinstance(node.op, (ast.Add, ast.Sub))
        elif isinstance(node, ast.Assign) and any(ast.unparse(target) == name for target in node.targets):
            yield node.value, False


def _read(scope: Scope, value: ast.expr, adds: bool) -> tuple[list[str], set[str]]:
    """The counts in what a divisor is given, and the names to follow."""
    for node in ast.walk(value):
        if isinstance(node, (ast.GeneratorExp, ast.ListComp)):
            return [ast.unparse(node.elt)], set()
    value = _of_rank(scope, value)
    if isinstance(value, ast.Name) or (isinstance(value, ast.Attribute) and ast.unparse(value.value) == "self"):
        return [], {ast.unparse(value)}
    if adds:
        return [ast.unparse(value)], set()
    if _is_start(scope, value):
        return [], set()
    if _only_keeps(scope, value):
        return [], _names(value)
    if scope.canonical(value.func if isinstance(value, ast.Call) else value).startswith("torch.distributed"):
        return [], set()
    return [ast.unparse(value)], set()


def _is_start(scope: Scope, value: ast.expr) -> bool:
    """A constant, or a tensor of one."""
    if isinstance(value, ast.Constant):
        return True
    if not isinstance(value, ast.Call):
        return False
    made = scope.canonical(value.func) in ("torch.tensor", "torch.zeros", "torch.zeros_like")
    return made and not any(isinstance(n, ast.Call) for a in value.args for n in ast.walk(a))


def _of_rank(scope: Scope, value: ast.expr) -> ast.expr:
    """What one rank contributes: `n` of `accelerator.reduce(torch.tensor(n, device=...)).item()`."""
    while isinstance(value, ast.Call):
        name = value.func.attr if isinstance(value.func, ast.Attribute) else ""
        if isinstance(value.func, ast.Attribute) and not value.args and name in ("item", "sum"):
            inner = _of_rank(scope, value.func.value)
            return inner if inner is not value.func.value else value
        if not value.args or not (name in SUMS_RANKS or scope.canonical(value.func) in TENSORS):
            break
        value = value.args[0]
    return value


def _only_keeps(scope: Scope, value: ast.expr) -> bool:
    """Whether an expression only bounds, converts or combines numbers by name: `n if n > 0 else 1` does."""
    tests = {id(node.test) for node in ast.walk(value) if isinstance(node, ast.IfExp)}
    for node in ast.walk(value):
        if isinstance(node, ast.Call):
            if scope.canonical(node.func) == "torch.distributed.get_world_size":
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ast.unparse(node.func)
            if called not in KEEPS | OF_RANKS:
                return False
        elif isinstance(node, ast.Subscript) or (isinstance(node, ast.Compare) and id(node) not in tests):
            return False
    return any(isinstance(node, ast.Name) for node in ast.walk(value))


__all__ = ["Derived", "counts_of", "derive"]
