"""A count that was written beside the loss, written anew for a place before the forward of its microbatch.

Names that the loop body gives on the way from the batch to the loss are replaced by what they are given. A step on the
way that is no plain operation on the batch means that the count is not known ahead of the forward.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from accumlint.reading import ir
from accumlint.reading.walk import called_name, walk
from accumlint.repair.flow import statements_before
from accumlint.repair.rewrite import Layout, Unplannable

MOVERS = re.compile(
    r"_?((batch|move|send|put|recursive|data|tensors?|inputs?|dict)_)*to_?(the_)?(device|cuda|gpu)", re.I
)
MOVES = frozenset({"to", "cuda", "cpu", "contiguous", "detach", "pin_memory"})
PURE = MOVES | {
    "view", "reshape", "flatten", "squeeze", "unsqueeze", "transpose", "permute", "long", "int", "float", "bool",
    "clone", "ne", "eq", "gt", "lt", "ge", "le", "sum", "size", "dim", "numel", "masked_fill", "t", "type", "roll",
}  # fmt: skip
HARMLESS = frozenset({"print", "len", "append", "update", "write", "set_postfix", "set_description", "info", "debug"})


def write_ahead(layout: Layout, loop: ir.For, at: ir.Statement, text: str, kept: set[str], start: ir.Statement) -> str:
    """`text`, which holds at the statement `at` of the loop, in terms of the names `kept` and of names outside it.

    `start` is the statement of the loop body that binds `kept`, or the loop itself.
    """
    lifted = _Ahead(layout, loop, kept, start).write(text, at)
    if "\n" in lifted:
        raise Unplannable("the count of its targets spans several lines")
    return lifted


class _Ahead:
    def __init__(self, layout: Layout, loop: ir.For, kept: set[str], start: ir.Statement) -> None:
        self.layout, self.loop, self.kept, self.start = layout, loop, kept, start
        self.seen: set[str] = set()
        self.assigned = {name for statement in walk(loop.body) for name in bound_names(statement)}

    def write(self, text: str, at: ir.Statement) -> str:
        written = self._substituted(text, at, 0)
        self._check_untouched(at)
        return written

    def _substituted(self, text: str, at: ir.Statement, depth: int) -> str:
        if depth > 12:
            raise Unplannable("the count of its targets cannot be written before the forward")
        raw = text.encode()
        for node in sorted(_free_names(text), key=lambda n: n.col_offset, reverse=True):
            value = self._value(node.id, at, depth)
            if value is not None:
                raw = raw[: node.col_offset] + value.encode() + raw[node.end_col_offset :]
        return raw.decode()

    def _value(self, name: str, at: ir.Statement, depth: int) -> str | None:
        """What a name is given before `at` in the loop, in the terms of the result; None where it stays as it is."""
        self.seen.add(name)
        for statement in statements_before(self.layout, at):
            if statement is self.start:
                break
            if not any(name in bound_names(each) for each in walk(statement)):
                continue
            if not isinstance(statement, ir.Assign) or len(statement.targets) != 1:
                raise Unplannable(f"`{name}` gets its value in a branch, or in place, before the loss")
            return self._given(name, statement, depth)
        if name in self.kept:
            return None
        if name in self.assigned or name in {n.id for n in walk(self.loop.target) if isinstance(n, ir.Name)}:
            raise Unplannable(f"`{name}`, which the count needs, is not known before the forward")
        return None

    def _given(self, name: str, statement: ir.Assign, depth: int) -> str | None:
        target, value = statement.targets[0], statement.value
        index = None
        if isinstance(target, ir.Display):
            places = [i for i, e in enumerate(target.elements) if isinstance(e, ir.Name) and e.id == name]
            if len(places) != 1 or any(isinstance(e, ir.Starred) for e in target.elements):
                raise Unplannable(f"`{name}` is unpacked in an unusual way")
            if isinstance(value, ir.Display) and len(value.elements) == len(target.elements):
                value = value.elements[places[0]]
            elif moved := moved_batch(value) or handed_over(value):
                value, index = moved, places[0]
            else:
                index = places[0]
        elif moved := moved_batch(value) or handed_over(value):
            value = moved
        value = unmoved(value)
        foreign = next((n for n in walk(value) if isinstance(n, ir.Call) and not _is_pure(n)), None)
        if foreign is not None or any(
            isinstance(n, (ir.Await, ir.Walrus, ir.Comprehension, ir.Lambda, ir.Unread)) for n in walk(value)
        ):
            raise Unplannable(f"`{name}`, which the count needs, is computed by a call in the loop")
        text = self._substituted(self.layout.flat(value), statement, depth + 1)
        plain = isinstance(value, (ir.Name, ir.Attribute, ir.Subscript, ir.Call))
        text = text if plain else f"({text})"
        return text if index is None else f"{text}[{index}]"

    def _check_untouched(self, at: ir.Statement) -> None:
        """Nothing in the loop may change in place what is counted before it runs."""
        end = self.layout.range(at.node)[0]
        for node in walk(self.loop.body):
            if isinstance(node, (ir.Assign, ir.Augment)):
                targets = node.targets if isinstance(node, ir.Assign) else (node.target,)
                changed: list[ir.Expression] = [t for t in targets if isinstance(t, (ir.Subscript, ir.Attribute))]
                if isinstance(node, ir.Augment):
                    changed += [node.target]
            elif isinstance(node, ir.Evaluate) and self.layout.range(node.node)[0] < end:
                changed = list(_handed_over(node.value))
            else:
                continue
            for name in {n.id for each in changed for n in walk(each) if isinstance(n, ir.Name)} & self.seen:
                if name in self.kept | self.assigned or any(isinstance(each, ir.Subscript) for each in changed):
                    raise Unplannable(f"`{name}`, which the count needs, may be changed in place in the loop")


def _handed_over(value: ir.Expression) -> Iterator[ir.Expression]:
    """What a call that stands alone may change: the receiver of `x.f_()`, and what a foreign function is given."""
    for call in walk(value):
        if not isinstance(call, ir.Call):
            continue
        name = called_name(call)
        if isinstance(call.function, ir.Attribute) and name.endswith("_"):
            yield call.function.value
        if name not in HARMLESS and name not in PURE:
            yield from (a.value for a in call.arguments if isinstance(a.value, (ir.Name, ir.Subscript, ir.Attribute)))


def moved_batch(value: ir.Expression) -> ir.Expression | None:
    """`batch` in `{k: v.to(device) for k, v in batch.items()}` and in `tuple(t.to(device) for t in batch)`."""
    wrapped = (
        isinstance(value, ir.Call) and isinstance(value.function, ir.Name) and value.function.id in ("tuple", "list")
    )
    if isinstance(value, ir.Call) and wrapped and len(value.arguments) == 1:
        value = value.arguments[0].value
    if not isinstance(value, ir.Comprehension) or len(value.clauses) != 1 or value.clauses[0].conditions:
        return None
    clause = value.clauses[0]
    if value.value is None:
        same = isinstance(clause.target, ir.Name) and _is_moved(value.element, clause.target.id)
        return clause.iterable if same else None
    pair = clause.target.elements if isinstance(clause.target, ir.Display) else ()
    items = clause.iterable
    if len(pair) != 2 or not isinstance(items, ir.Call) or not isinstance(items.function, ir.Attribute):
        return None
    key, held = pair
    same = isinstance(key, ir.Name) and isinstance(value.element, ir.Name) and value.element.id == key.id
    if same and items.function.name == "items" and isinstance(held, ir.Name) and _is_moved(value.value, held.id):
        return items.function.value
    return None


def _is_moved(expression: ir.Expression, name: str) -> bool:
    core = unmoved(expression)
    if isinstance(core, ir.Conditional):
        return _is_moved(core.body, name) and _is_moved(core.orelse, name)
    return isinstance(core, ir.Name) and core.id == name


def handed_over(value: ir.Expression) -> ir.Expression | None:
    """`batch` in `to_device(batch, device)` and `self.move_to_device(batch)`: helpers that are named for a move."""
    if (
        not isinstance(value, ir.Call)
        or not MOVERS.fullmatch(called_name(value))
        or not value.arguments
        or value.arguments[0].star
    ):
        return None
    return value.arguments[0].value if value.arguments[0].keyword is None else None


def unmoved(expression: ir.Expression) -> ir.Expression:
    """An expression without trailing calls that only move it to a device; a cast by `.to(torch.long)` is kept."""
    while (
        isinstance(expression, ir.Call)
        and isinstance(expression.function, ir.Attribute)
        and expression.function.name in MOVES
        and not any(isinstance(n, ir.Name) and n.id == "torch" for a in expression.arguments[:1] for n in walk(a.value))
        and not any(a.keyword == "dtype" for a in expression.arguments)
    ):
        expression = expression.function.value
    return expression


def bound_names(node: ir.Expression | ir.Statement) -> Iterable[str]:
    """The names that a statement (or a walrus) itself gives a value."""
    targets: tuple[ir.Expression, ...] = ()
    if isinstance(node, ir.Assign):
        targets = node.targets
    elif isinstance(node, (ir.Augment, ir.For, ir.Walrus)):
        targets = (node.target,)
    elif isinstance(node, ir.With):
        targets = tuple(name for _, name in node.items if name is not None)
    elif isinstance(node, ir.Delete):
        targets = node.targets
    return {name for target in targets for name in _stored(target)}


def _stored(target: ir.Expression) -> Iterator[str]:
    if isinstance(target, ir.Name):
        yield target.id
    elif isinstance(target, ir.Display):
        for element in target.elements:
            yield from _stored(element)
    elif isinstance(target, ir.Starred):
        yield from _stored(target.value)


def _is_pure(call: ir.Call) -> bool:
    return isinstance(call.function, ir.Attribute) and call.function.name in PURE


def _free_names(text: str) -> list[ast.Name]:
    """The names that an expression reads from outside it, but functions of Python."""
    tree = ast.parse(text, mode="eval")
    own = {
        n.id
        for c in ast.walk(tree)
        if isinstance(c, ast.comprehension)
        for n in ast.walk(c.target)
        if isinstance(n, ast.Name)
    }
    called = {id(c.func) for c in ast.walk(tree) if isinstance(c, ast.Call) and isinstance(c.func, ast.Name)}
    return [n for n in ast.walk(tree) if isinstance(n, ast.Name) and id(n) not in called and n.id not in own]


__all__ = ["bound_names", "moved_batch", "unmoved", "write_ahead"]
