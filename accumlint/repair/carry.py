"""A text of one function, written for another one that calls it or is called by it."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.ahead import bound_names
from accumlint.repair.rewrite import Layout, Unplannable

PLAIN = (ir.Name, ir.Attribute, ir.Constant)


def carry_up(layout: Layout, text: str, chain: Sequence[ir.Call]) -> str:
    """What holds in the function that the lowest call of `chain` calls, in the function of the highest call."""
    for call in chain:
        inner, outer = layout.called_function(call), layout.function(layout.statement(call.node))
        known = {name: layout.flat(v) for name, v in _passed(call, inner).items() if isinstance(v, PLAIN)}
        text = _written(layout, text, inner, outer, known)
    return text


def carry_down(layout: Layout, text: str, chain: Sequence[ir.Call]) -> str:
    """What holds in the function of the highest call of `chain`, in the function that the lowest one calls."""
    for call in reversed(chain):
        inner, outer = layout.called_function(call), layout.function(layout.statement(call.node))
        given = {value.id: name for name, value in _passed(call, inner).items() if isinstance(value, ir.Name)}
        text = _written(layout, text, outer, inner, given)
    return text


def _passed(call: ir.Call, function: ir.Function) -> dict[str, ir.Expression]:
    """What a call passes, by the parameter; what is left out has the value of its default."""
    names = [p.name for p in function.parameters if p.kind == "positional"]
    if isinstance(call.function, ir.Attribute) and names[:1] == ["self"]:
        names = names[1:]
    found: dict[str, ir.Expression] = {}
    for position, argument in enumerate(call.arguments):
        if argument.star:
            break
        name = argument.keyword or (names[position] if position < len(names) else "")
        found[name] = argument.value
    return found


def _written(
    layout: Layout, text: str, inside: ir.Function | None, goal: ir.Function | None, known: dict[str, str]
) -> str:
    """`text` of `inside` with the names of `goal`; Unplannable where a name has no counterpart."""
    own, foreign = _local(inside), _local(goal)
    nested = goal is not None and inside is not None and layout.function(inside) is goal
    raw = text.encode()
    tree = ast.parse(text)
    starts = [0]
    for line in raw.split(b"\n"):
        starts.append(starts[-1] + len(line) + 1)
    names = [n for n in ast.walk(tree) if isinstance(n, ast.Name)]
    for name in sorted(names, key=lambda n: (n.lineno, n.col_offset), reverse=True):
        if name.id == "self" and same_class(layout, inside, goal):
            continue
        if name.id not in own and (name.id not in foreign or nested):
            continue
        value = known.get(name.id)
        bound = isinstance(name.ctx, ast.Store) or (inside is not None and name.id in _assigned(inside))
        if value is None or bound:
            raise Unplannable(f"`{name.id}` is not known where its step is taken")
        start = starts[name.lineno - 1] + name.col_offset
        raw = raw[:start] + value.encode() + raw[start + len(name.id.encode()) :]
    return raw.decode()


def _is_method(function: ir.Function | None) -> bool:
    return function is not None and [p.name for p in function.parameters[:1]] == ["self"]


def _owner(layout: Layout, function: ir.Function | None) -> ir.Statement | None:
    return None if function is None else layout.places[function.node].parent


def same_class(layout: Layout, one: ir.Function | None, other: ir.Function | None) -> bool:
    """Whether two functions are methods of one class of the file: what `self` is in one it is in the other."""
    both = _is_method(one) and _is_method(other)
    return both and isinstance(_owner(layout, one), ir.Class) and _owner(layout, one) is _owner(layout, other)


def _assigned(function: ir.Function) -> set[str]:
    return {name for statement in walk(function.body) for name in bound_names(statement)}


def _local(function: ir.Function | None) -> set[str]:
    return set() if function is None else _assigned(function) | {p.name for p in function.parameters}


__all__ = ["carry_down", "carry_up", "same_class"]
