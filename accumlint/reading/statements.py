"""Lowering of statements: one function a libcst node kind, found by its type in `LOWER`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import libcst as cst

from accumlint.reading import ir
from accumlint.reading.expressions import (
    BINARY,
    lower_argument,
    lower_expression,
    lower_optional,
    lower_parameters,
)
from accumlint.reading.patterns import lower_case
from accumlint.reading.table import Table

AUGMENT: dict[type[cst.CSTNode], str] = {
    getattr(cst, f"{kind.__name__}Assign"): operator for kind, operator in BINARY.items()
}


def lower_statements(table: Table, nodes: Iterable[cst.CSTNode]) -> tuple[ir.Statement, ...]:
    """Lower statements in order; a line of several small statements gives several."""
    lowered: list[ir.Statement] = []
    for node in nodes:
        if isinstance(node, cst.SimpleStatementLine):
            lowered.extend([LOWER[type(small)](table, small) for small in node.body])
        else:
            lowered.append(_compound(table, node))
    return tuple(lowered)


def _compound(table: Table, node: cst.CSTNode) -> ir.Statement:
    table.enter()
    lowered = LOWER[type(node)](table, node)
    table.depth -= 1
    return lowered


def lower_block(table: Table, node: cst.BaseSuite) -> tuple[ir.Statement, ...]:
    """The body of a compound statement, indented or on the line of its header."""
    if isinstance(node, cst.SimpleStatementSuite):
        return tuple([LOWER[type(small)](table, small) for small in node.body])
    return lower_statements(table, node.body)


# ------------------------------------------------------------------------------------------ small statements


def _evaluate(table: Table, node: cst.Expr) -> ir.Statement:
    return ir.Evaluate(table.add(node), lower_expression(table, node.value))


def _assign(table: Table, node: cst.Assign) -> ir.Statement:
    here = table.add(node)
    targets = tuple([lower_expression(table, each.target) for each in node.targets])
    return ir.Assign(here, targets, lower_expression(table, node.value))


def _annotated(table: Table, node: cst.AnnAssign) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.target)
    annotation = lower_expression(table, node.annotation.annotation)
    if node.value is None:
        return ir.Declare(here, target, annotation)
    return ir.Assign(here, (target,), lower_expression(table, node.value), annotation)


def _augment(table: Table, node: cst.AugAssign) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.target)
    return ir.Augment(here, target, AUGMENT[type(node.operator)], lower_expression(table, node.value))


def _type_alias(table: Table, node: cst.TypeAlias) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.name)
    return ir.Assign(here, (target,), lower_expression(table, node.value))


def _return(table: Table, node: cst.Return) -> ir.Statement:
    return ir.Return(table.add(node), lower_optional(table, node.value))


def _raise(table: Table, node: cst.Raise) -> ir.Statement:
    """`raise X from Y` keeps X only: whichever it is, the path ends here."""
    return ir.Raise(table.add(node), lower_optional(table, node.exc))


def _assert(table: Table, node: cst.Assert) -> ir.Statement:
    """The message is dropped: it is evaluated only where the path ends."""
    return ir.Assert(table.add(node), lower_expression(table, node.test))


def _delete(table: Table, node: cst.Del) -> ir.Statement:
    here = table.add(node)
    target = node.target
    parts = [each.value for each in target.elements] if isinstance(target, (cst.Tuple, cst.List)) else [target]
    return ir.Delete(here, tuple([lower_expression(table, part) for part in parts]))


def _break(table: Table, node: cst.Break) -> ir.Statement:
    return ir.Break(table.add(node))


def _continue(table: Table, node: cst.Continue) -> ir.Statement:
    return ir.Continue(table.add(node))


def _pass(table: Table, node: cst.Pass) -> ir.Statement:
    return ir.Pass(table.add(node))


def _scope(table: Table, node: cst.Global | cst.Nonlocal) -> ir.Statement:
    names = tuple([item.name.value for item in node.names])
    return ir.Scope(table.add(node), type(node).__name__.lower(), names)


def _import(table: Table, node: cst.Import) -> ir.Statement:
    bindings: list[tuple[str, str]] = []
    for alias in node.names:
        dotted = _dotted(alias.name)
        local = _bound(alias)
        top = dotted.partition(".")[0]
        bindings.append((local, dotted) if local else (top, top))
    return ir.Import(table.add(node), tuple(bindings))


def _import_from(table: Table, node: cst.ImportFrom) -> ir.Statement:
    """A relative target keeps its dots: "." * level + ("module." if there is one) + name.

    So `from .m import x` binds x -> ".m.x", `from . import x` x -> ".x", `from .. import x` x -> "..x", and
    `from .m import *` binds "*" -> ".m", `from . import *` "*" -> ".".
    """
    dots = "." * len(node.relative)
    module = "" if node.module is None else _dotted(node.module)
    if isinstance(node.names, cst.ImportStar):
        return ir.Import(table.add(node), (("*", dots + module),))
    prefix = dots + (f"{module}." if module else "")
    names = [(_dotted(alias.name), _bound(alias)) for alias in node.names]
    return ir.Import(table.add(node), tuple([(local or name, prefix + name) for name, local in names]))


def _dotted(node: cst.CSTNode) -> str:
    parts: list[str] = []
    while isinstance(node, cst.Attribute):
        parts.append(node.attr.value)
        node = node.value
    assert isinstance(node, cst.Name)
    return ".".join([node.value, *reversed(parts)])


def _bound(alias: cst.ImportAlias) -> str:
    if alias.asname is None:
        return ""
    assert isinstance(alias.asname.name, cst.Name)
    return alias.asname.name.value


# --------------------------------------------------------------------------------------- compound statements


def _if(table: Table, node: cst.If) -> ir.Statement:
    here = table.add(node)
    test = lower_expression(table, node.test)
    body = lower_block(table, node.body)
    if isinstance(node.orelse, cst.If):
        return ir.If(here, test, body, (_compound(table, node.orelse),))
    return ir.If(here, test, body, _else(table, node.orelse))


def _else(table: Table, node: cst.Else | cst.Finally | None) -> tuple[ir.Statement, ...]:
    return () if node is None else lower_block(table, node.body)


def _for(table: Table, node: cst.For) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.target)
    iterable = lower_expression(table, node.iter)
    body = lower_block(table, node.body)
    return ir.For(here, target, iterable, body, _else(table, node.orelse), node.asynchronous is not None)


def _while(table: Table, node: cst.While) -> ir.Statement:
    here = table.add(node)
    test = lower_expression(table, node.test)
    body = lower_block(table, node.body)
    return ir.While(here, test, body, _else(table, node.orelse))


def _with(table: Table, node: cst.With) -> ir.Statement:
    here = table.add(node)
    items: list[tuple[ir.Expression, ir.Expression | None]] = []
    for item in node.items:
        context = lower_expression(table, item.item)
        items.append((context, None if item.asname is None else lower_expression(table, item.asname.name)))
    return ir.With(here, tuple(items), lower_block(table, node.body), node.asynchronous is not None)


def _try(table: Table, node: cst.Try | cst.TryStar) -> ir.Statement:
    here = table.add(node)
    body = lower_block(table, node.body)
    handlers = tuple([_handler(table, handler) for handler in node.handlers])
    orelse = _else(table, node.orelse)
    return ir.Try(here, body, handlers, orelse, _else(table, node.finalbody))


def _handler(table: Table, node: cst.ExceptHandler | cst.ExceptStarHandler) -> ir.Handler:
    kind = lower_optional(table, node.type)
    name = node.name.name.value if node.name is not None and isinstance(node.name.name, cst.Name) else None
    return ir.Handler(kind, name, lower_block(table, node.body))


def _match(table: Table, node: cst.Match) -> ir.Statement:
    here = table.add(node)
    subject = lower_expression(table, node.subject)
    return ir.Match(here, subject, tuple(_cases(table, node)))


def _cases(table: Table, node: cst.Match) -> Iterator[ir.Case]:
    for case in node.cases:
        pattern = lower_case(table, case.pattern)
        guard = lower_optional(table, case.guard)
        yield ir.Case(pattern.value, pattern.names, guard, lower_block(table, case.body), pattern.is_wildcard)


def _function(table: Table, node: cst.FunctionDef) -> ir.Statement:
    """Decorators, defaults and annotations belong to the scope outside: a `yield` in them does not count."""
    here = table.add(node)
    decorators = tuple([lower_expression(table, each.decorator) for each in node.decorators])
    parameters = lower_parameters(table, node.params)
    outer, table.yields = table.yields, False
    body = lower_block(table, node.body)
    is_generator, table.yields = table.yields, outer
    return ir.Function(here, node.name.value, parameters, body, decorators, node.asynchronous is not None, is_generator)


def _class(table: Table, node: cst.ClassDef) -> ir.Statement:
    here = table.add(node)
    decorators = tuple([lower_expression(table, each.decorator) for each in node.decorators])
    bases = tuple([_base(table, argument) for argument in node.bases])
    keywords = tuple([lower_argument(table, argument) for argument in node.keywords])
    return ir.Class(here, node.name.value, bases, keywords, lower_block(table, node.body), decorators)


def _base(table: Table, node: cst.Arg) -> ir.Expression:
    if node.star:
        return ir.Starred(table.add(node), lower_expression(table, node.value))
    return lower_expression(table, node.value)


LOWER: dict[type[cst.CSTNode], Callable[[Table, Any], ir.Statement]] = {
    cst.Expr: _evaluate, cst.Assign: _assign, cst.AnnAssign: _annotated, cst.AugAssign: _augment,
    cst.TypeAlias: _type_alias, cst.Return: _return, cst.Raise: _raise, cst.Assert: _assert, cst.Del: _delete,
    cst.Break: _break, cst.Continue: _continue, cst.Pass: _pass, cst.Global: _scope, cst.Nonlocal: _scope,
    cst.Import: _import, cst.ImportFrom: _import_from,
    cst.If: _if, cst.For: _for, cst.While: _while, cst.With: _with, cst.Try: _try, cst.TryStar: _try,
    cst.Match: _match, cst.FunctionDef: _function, cst.ClassDef: _class,
}  # fmt: skip

if hasattr(cst, "LazyImport"):  # PEP 810, in the newest libcst only
    LOWER[cst.LazyImport] = _import
    LOWER[cst.LazyImportFrom] = _import_from
