"""Walking over IR nodes: direct children in the order of the source, and everything below a node, without recursion."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, get_args

from accumlint.reading import ir

Node: TypeAlias = ir.Statement | ir.Expression

SCOPES = (ir.Function, ir.Class, ir.Lambda)


def children(node: Node) -> list[Node]:
    """The statements and expressions directly inside `node`, ids ascending.

    Arguments, parameters, clauses, handlers and cases are no nodes: what they hold counts as a child itself.
    """
    return _CHILDREN[type(node)](node)


def walk(root: Node | Iterable[Node], *, into_scopes: bool = True) -> Iterator[Node]:
    """`root` (a node or several, such as a body) and all below, a parent before its parts, ids ascending.

    With `into_scopes=False` a function, class or lambda is yielded but not entered, though its decorators, bases,
    defaults and annotations are: they run where it stands. A single root is entered in any case.
    """
    several = isinstance(root, Iterable)
    pending: list[Node] = list(root)[::-1] if isinstance(root, Iterable) else [root]
    while pending:
        node = pending.pop()
        yield node
        if not into_scopes and isinstance(node, SCOPES) and (several or node is not root):
            pending.extend(reversed(surroundings(node)))
        else:
            pending.extend(reversed(_CHILDREN[type(node)](node)))


def blocks(statement: ir.Statement) -> list[tuple[ir.Statement, ...]]:
    """The blocks inside a statement that are not empty, in the order of the source."""
    inside = _BLOCKS.get(type(statement))
    return [] if inside is None else [block for block in inside(statement) if block]


def header(statement: ir.Statement) -> list[Node]:
    """The expressions directly inside a statement: its children that stand in none of its blocks."""
    parts = _CHILDREN[type(statement)](statement)
    return [part for part in parts if type(part) not in _STATEMENTS] if type(statement) in _BLOCKS else parts


def all_statements(body: Iterable[ir.Statement], *, into_scopes: bool = True) -> Iterator[ir.Statement]:
    """The statements of a body and of the blocks inside them, in the order of the source; with `into_scopes=False`
    without the bodies of functions and classes that are only defined there."""
    pending = list(body)[::-1]
    while pending:
        statement = pending.pop()
        yield statement
        inside = _BLOCKS.get(type(statement))
        if inside is not None and (into_scopes or not isinstance(statement, (ir.Function, ir.Class))):
            for inner in reversed(inside(statement)):
                pending.extend(reversed(inner))


def surroundings(node: ir.Function | ir.Class | ir.Lambda) -> list[Node]:
    """What a scope evaluates outside itself: decorators, bases, keywords, defaults, annotations."""
    if isinstance(node, ir.Lambda):
        return _parameters(node.parameters)
    if isinstance(node, ir.Function):
        return [*node.decorators, *_parameters(node.parameters)]
    return [*node.decorators, *node.bases, *(argument.value for argument in node.keywords)]


def dotted(node: ir.Expression) -> str | None:
    """`a.b.c` for a chain of attributes on a name, else None."""
    parts: list[str] = []
    while isinstance(node, ir.Attribute):
        parts.append(node.name)
        node = node.value
    if not isinstance(node, ir.Name):
        return None
    parts.append(node.id)
    return ".".join(reversed(parts))


def last_name(expression: ir.Expression) -> str:
    """`c` for `a.b.c` and for `c`, whatever an attribute is taken of; "" for anything else."""
    if isinstance(expression, ir.Attribute):
        return expression.name
    return expression.id if isinstance(expression, ir.Name) else ""


def called_name(call: ir.Call) -> str:
    """The last name of what is called: `step` for `self.optimizer.step()`."""
    return last_name(call.function)


def _none(node: Any) -> list[Node]:
    return []


def _some(*parts: ir.Expression | None) -> list[Node]:
    return [part for part in parts if part is not None]


def _parameters(parameters: Iterable[ir.Parameter]) -> list[Node]:
    return [part for each in parameters for part in _some(each.annotation, each.default)]


def _clauses(node: ir.Comprehension) -> list[Node]:
    found = _some(node.element, node.value)
    for clause in node.clauses:
        found += (clause.target, clause.iterable, *clause.conditions)
    return found


def _try(node: ir.Try) -> list[Node]:
    found: list[Node] = [*node.body]
    for handler in node.handlers:
        found += (*_some(handler.kind), *handler.body)
    return [*found, *node.orelse, *node.final]


def _match(node: ir.Match) -> list[Node]:
    found: list[Node] = [node.subject]
    for case in node.cases:
        found += (*_some(case.value, case.guard), *case.body)
    return found


_CHILDREN: dict[type, Callable[[Any], list[Node]]] = {
    ir.Constant: _none,
    ir.Name: _none,
    ir.Attribute: lambda node: [node.value],
    ir.Call: lambda node: [node.function, *[argument.value for argument in node.arguments]],
    ir.Binary: lambda node: [node.left, node.right],
    ir.Unary: lambda node: [node.operand],
    ir.Boolean: lambda node: [*node.values],
    ir.Compare: lambda node: [node.left, *node.comparators],
    ir.Subscript: lambda node: [node.value, node.index],
    ir.Slice: lambda node: _some(node.lower, node.upper, node.step),
    ir.Conditional: lambda node: [node.body, node.test, node.orelse],
    ir.Display: lambda node: [*node.elements],
    ir.DictDisplay: lambda node: [part for item in node.items for part in _some(*item)],
    ir.Comprehension: _clauses,
    ir.Lambda: lambda node: [*_parameters(node.parameters), node.body],
    ir.Walrus: lambda node: [node.target, node.value],
    ir.Formatted: lambda node: [*node.values],
    ir.Starred: lambda node: [node.value],
    ir.Await: lambda node: [node.value],
    ir.Yield: lambda node: _some(node.value),
    ir.Unread: lambda node: [*node.values],
    ir.Assign: lambda node: [*node.targets, *_some(node.annotation), node.value],
    ir.Declare: lambda node: [node.target, node.annotation],
    ir.Augment: lambda node: [node.target, node.value],
    ir.Evaluate: lambda node: [node.value],
    ir.If: lambda node: [node.test, *node.body, *node.orelse],
    ir.For: lambda node: [node.target, node.iterable, *node.body, *node.orelse],
    ir.While: lambda node: [node.test, *node.body, *node.orelse],
    ir.With: lambda node: [*[part for item in node.items for part in _some(*item)], *node.body],
    ir.Try: _try,
    ir.Match: _match,
    ir.Return: lambda node: _some(node.value),
    ir.Raise: lambda node: _some(node.value),
    ir.Assert: lambda node: [node.test],
    ir.Delete: lambda node: [*node.targets],
    ir.Break: _none,
    ir.Continue: _none,
    ir.Pass: _none,
    ir.Import: _none,
    ir.Scope: _none,
    ir.Function: lambda node: [*surroundings(node), *node.body],
    ir.Class: lambda node: [*surroundings(node), *node.body],
}

_BLOCKS: dict[type, Callable[[Any], list[tuple[ir.Statement, ...]]]] = {
    ir.If: lambda node: [node.body, node.orelse],
    ir.For: lambda node: [node.body, node.orelse],
    ir.While: lambda node: [node.body, node.orelse],
    ir.With: lambda node: [node.body],
    ir.Try: lambda node: [node.body, *[handler.body for handler in node.handlers], node.orelse, node.final],
    ir.Match: lambda node: [case.body for case in node.cases],
    ir.Function: lambda node: [node.body],
    ir.Class: lambda node: [node.body],
}
_STATEMENTS = frozenset(get_args(ir.Statement))
