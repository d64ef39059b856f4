"""The outline of a module: what its text says about who calls whom and where a backward is, before anything is run.

It depends on the module alone, so a module that many files follow is outlined once a run.
"""

from __future__ import annotations

import sys
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import zip_longest

from accumlint.reading import ir
from accumlint.reading.prefilter import BACKWARDS
from accumlint.reading.program import Module
from accumlint.reading.walk import all_statements, blocks, called_name, last_name, walk
from accumlint.semantics.summaries import followed_name, nodes_of

STEPPERS = frozenset({"loss_scaler"})


@dataclass(frozen=True, eq=False, slots=True)
class OutlinedFunction:
    """A function, the class and the function it is defined in, the backwards in it, and the names it may call."""

    function: ir.Function
    owner: ir.Class | None
    outer: ir.Function | None
    backwards: frozenset[ir.NodeId]
    calls: frozenset[str]


@dataclass(frozen=True, eq=False, slots=True)
class Outline:
    """What regions are found from.

    `aliases` are (name, function) where a value is given another name, `imports` the dotted targets of all imports,
    `definitions` all functions, those that are no candidates too; `script_calls` are the names that loops of the
    script itself call.
    """

    functions: tuple[OutlinedFunction, ...]
    aliases: tuple[tuple[str, str], ...]
    imports: tuple[str, ...]
    definitions: tuple[ir.Function, ...]
    script_backwards: frozenset[ir.NodeId]
    script_calls: frozenset[str]


def outline_of(module: Module) -> Outline:
    """The outline of a module."""
    aliases: list[tuple[str, str]] = []
    imports: list[str] = []
    for node in all_statements(module.body):
        if isinstance(node, ir.Assign):
            aliases += _aliases(node)
        elif isinstance(node, ir.Import):
            imports += [target for _, target in node.bindings]
    return Outline(
        tuple(_functions(_Calls(module), module.body, sys.maxsize)),
        tuple(aliases),
        tuple(dict.fromkeys(imports)),
        definitions_in(module),
        frozenset(_script_backwards(module.body)),
        frozenset(_script_calls(module.body)),
    )


def definitions_in(module: Module) -> tuple[ir.Function, ...]:
    """All functions that a module defines, methods and inner ones too, in the order of the source."""
    return tuple(node for node in all_statements(module.body) if isinstance(node, ir.Function))


def _aliases(node: ir.Assign) -> list[tuple[str, str]]:
    """(name, value) where something is given another name: `self.run = self._run`, `step = partial(f, ...)`."""
    names = [name for value in _alternatives(node.value) if (name := last_name(value))]
    targets = [last_name(target) for target in node.targets] if names else []
    return [(target, name) for target in targets for name in names if target and target != name]


def _alternatives(value: ir.Expression) -> list[ir.Expression]:
    """What a value may be: either side of a conditional, what a call (`partial`, `torch.compile`) is given first."""
    if isinstance(value, ir.Conditional):
        return [*_alternatives(value.body), *_alternatives(value.orelse)]
    if isinstance(value, ir.Call):
        return _alternatives(value.arguments[0].value) if value.arguments else []
    return [value]


class _Calls:
    """All calls of a module in order, so that those of a function are a slice of them."""

    def __init__(self, module: Module) -> None:
        self.calls = [node for node in module.each_node() if type(node) is ir.Call]
        self.ids = [call.node for call in self.calls]

    def within(self, body: tuple[ir.Statement, ...], end: ir.NodeId) -> list[ir.Call]:
        """Those in a body, the next node after which has the id `end`."""
        return self.calls[bisect_left(self.ids, body[0].node) : bisect_left(self.ids, end)] if body else []


def _functions(
    calls: _Calls,
    body: tuple[ir.Statement, ...],
    end: ir.NodeId,
    owner: ir.Class | None = None,
    outer: ir.Function | None = None,
) -> Iterator[OutlinedFunction]:
    """The functions that a body defines; `end` is the id of the next node after it."""
    for statement, follower in zip_longest(body, body[1:]):
        after = end if follower is None else follower.node
        if isinstance(statement, ir.Class):
            yield from _functions(calls, statement.body, after, statement, outer)
        elif isinstance(statement, ir.Function):
            own = calls.within(statement.body, after)
            backwards = frozenset(call.node for call in own if _is_backward(call))
            yield OutlinedFunction(statement, owner, outer, backwards, frozenset(map(followed_name, own)))
            yield from _functions(calls, statement.body, after, owner, statement)
        else:
            inner = blocks(statement)
            for block, next_block in zip_longest(inner, inner[1:]):
                stop = after if next_block is None else next_block[0].node
                yield from _functions(calls, block, stop, owner, outer)


def _script_backwards(body: tuple[ir.Statement, ...]) -> Iterator[ir.NodeId]:
    for statement in body:
        for node in nodes_of(statement):
            if isinstance(node, ir.Call) and _is_backward(node):
                yield node.node


def _script_calls(body: tuple[ir.Statement, ...]) -> Iterator[str]:
    for loop in all_statements(body, into_scopes=False):
        if isinstance(loop, (ir.For, ir.While)):
            yield from (followed_name(n) for n in walk(loop.body, into_scopes=False) if isinstance(n, ir.Call))


def _is_backward(call: ir.Call) -> bool:
    return called_name(call) in BACKWARDS or _hides_backward(call)


def _hides_backward(call: ir.Call) -> bool:
    """A call of a stepper, which runs backward, clip and step inside (MAE, timm)."""
    return called_name(call) in STEPPERS or any(a.keyword in ("update_grad", "need_update") for a in call.arguments)
