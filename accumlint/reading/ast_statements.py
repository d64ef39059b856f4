"""Lowering of Python's own `ast`, statements; `statements.py` is the other half of the pair."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from accumlint.reading import ir
from accumlint.reading.ast_expressions import (
    BINARY,
    UnlikeError,
    arguments,
    lower_argument,
    lower_expression,
    lower_optional,
    lower_parameters,
    plain,
)
from accumlint.reading.table import Table

SMALL = (
    ast.Expr, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Return, ast.Raise, ast.Assert, ast.Delete, ast.Break,
    ast.Continue, ast.Pass, ast.Global, ast.Nonlocal, ast.Import, ast.ImportFrom,
)  # fmt: skip


def lower_statements(table: Table, nodes: list[ast.stmt]) -> tuple[ir.Statement, ...]:
    """Lower statements in order. Raises `UnlikeError` for what is better left to libcst."""
    lowered: list[ir.Statement] = []
    for node in nodes:
        lower = LOWER.get(type(node))
        if lower is None:
            raise UnlikeError(type(node).__name__)
        if isinstance(node, SMALL):
            lowered.append(lower(table, node))
        else:
            table.enter()
            lowered.append(lower(table, node))
            table.depth -= 1
        table.lowered.append(lowered[-1])
    return tuple(lowered)


# ------------------------------------------------------------------------------------------ small statements


def _evaluate(table: Table, node: ast.Expr) -> ir.Statement:
    return ir.Evaluate(table.add(node), lower_expression(table, node.value))


def _assign(table: Table, node: ast.Assign) -> ir.Statement:
    here = table.add(node)
    targets = tuple([lower_expression(table, each) for each in node.targets])
    return ir.Assign(here, targets, lower_expression(table, node.value))


def _annotated(table: Table, node: ast.AnnAssign) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.target)
    annotation = lower_expression(table, node.annotation)
    if node.value is None:
        return ir.Declare(here, target, annotation)
    return ir.Assign(here, (target,), lower_expression(table, node.value), annotation)


def _augment(table: Table, node: ast.AugAssign) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.target)
    return ir.Augment(here, target, BINARY[type(node.op)], lower_expression(table, node.value))


def _type_alias(table: Table, node: Any) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.name)
    return ir.Assign(here, (target,), lower_expression(table, node.value))


def _return(table: Table, node: ast.Return) -> ir.Statement:
    return ir.Return(table.add(node), lower_optional(table, node.value))


def _raise(table: Table, node: ast.Raise) -> ir.Statement:
    return ir.Raise(table.add(node), lower_optional(table, node.exc))


def _assert(table: Table, node: ast.Assert) -> ir.Statement:
    return ir.Assert(table.add(node), lower_expression(table, node.test))


def _delete(table: Table, node: ast.Delete) -> ir.Statement:
    here = table.add(node)
    first = node.targets[0]
    alone = len(node.targets) == 1 and isinstance(first, (ast.Tuple, ast.List))
    parts = first.elts if alone and isinstance(first, (ast.Tuple, ast.List)) else node.targets
    return ir.Delete(here, tuple([lower_expression(table, part) for part in parts]))


def _break(table: Table, node: ast.Break) -> ir.Statement:
    return ir.Break(table.add(node))


def _continue(table: Table, node: ast.Continue) -> ir.Statement:
    return ir.Continue(table.add(node))


def _pass(table: Table, node: ast.Pass) -> ir.Statement:
    return ir.Pass(table.add(node))


def _scope(table: Table, node: ast.Global | ast.Nonlocal) -> ir.Statement:
    return ir.Scope(table.add(node), type(node).__name__.lower(), tuple([plain(name) for name in node.names]))


def _import(table: Table, node: ast.Import) -> ir.Statement:
    bindings: list[tuple[str, str]] = []
    for alias in node.names:
        top = plain(alias.name).partition(".")[0]
        bindings.append((plain(alias.asname), alias.name) if alias.asname else (top, top))
    return ir.Import(table.add(node), tuple(bindings))


def _import_from(table: Table, node: ast.ImportFrom) -> ir.Statement:
    dots = "." * node.level
    module = plain(node.module or "")
    if node.names[0].name == "*":
        return ir.Import(table.add(node), (("*", dots + module),))
    prefix = dots + (f"{module}." if module else "")
    bindings = tuple([(plain(each.asname or each.name), prefix + plain(each.name)) for each in node.names])
    return ir.Import(table.add(node), bindings)


# --------------------------------------------------------------------------------------- compound statements


def _if(table: Table, node: ast.If) -> ir.Statement:
    here = table.add(node)
    test = lower_expression(table, node.test)
    body = lower_statements(table, node.body)
    return ir.If(here, test, body, lower_statements(table, node.orelse))


def _for(table: Table, node: ast.For | ast.AsyncFor) -> ir.Statement:
    here = table.add(node)
    target = lower_expression(table, node.target)
    iterable = lower_expression(table, node.iter)
    body = lower_statements(table, node.body)
    orelse = lower_statements(table, node.orelse)
    return ir.For(here, target, iterable, body, orelse, isinstance(node, ast.AsyncFor))


def _while(table: Table, node: ast.While) -> ir.Statement:
    here = table.add(node)
    test = lower_expression(table, node.test)
    body = lower_statements(table, node.body)
    return ir.While(here, test, body, lower_statements(table, node.orelse))


def _with(table: Table, node: ast.With | ast.AsyncWith) -> ir.Statement:
    here = table.add(node)
    items: list[tuple[ir.Expression, ir.Expression | None]] = []
    for item in node.items:
        context = lower_expression(table, item.context_expr)
        items.append((context, lower_optional(table, item.optional_vars)))
    return ir.With(here, tuple(items), lower_statements(table, node.body), isinstance(node, ast.AsyncWith))


def _try(table: Table, node: Any) -> ir.Statement:
    here = table.add(node)
    body = lower_statements(table, node.body)
    handlers = tuple([_handler(table, handler) for handler in node.handlers])
    orelse = lower_statements(table, node.orelse)
    return ir.Try(here, body, handlers, orelse, lower_statements(table, node.finalbody))


def _handler(table: Table, node: ast.ExceptHandler) -> ir.Handler:
    kind = lower_optional(table, node.type)
    return ir.Handler(kind, None if node.name is None else plain(node.name), lower_statements(table, node.body))


def _match(table: Table, node: ast.Match) -> ir.Statement:
    here = table.add(node)
    subject = lower_expression(table, node.subject)
    return ir.Match(here, subject, tuple(_cases(table, node)))


def _cases(table: Table, node: ast.Match) -> Iterator[ir.Case]:
    """Only a plain value is kept of a pattern, as in `patterns.py`."""
    for case in node.cases:
        value: ir.Expression | None = None
        if isinstance(case.pattern, ast.MatchValue):
            value = lower_expression(table, case.pattern.value)
        elif isinstance(case.pattern, ast.MatchSingleton):
            table.enter()
            table.lowered.append(value := ir.Constant(table.add(case.pattern), case.pattern.value))
            table.depth -= 1
        names = tuple(dict.fromkeys(_bound_names(case.pattern)))
        is_wildcard = isinstance(case.pattern, ast.MatchAs) and case.pattern.pattern is None
        guard = lower_optional(table, case.guard)
        yield ir.Case(value, names, guard, lower_statements(table, case.body), is_wildcard)


def _bound_names(pattern: ast.pattern) -> Iterator[str]:
    pending: list[ast.AST] = [pattern]
    while pending:
        part = pending.pop()
        if isinstance(part, (ast.MatchAs, ast.MatchStar)) and part.name is not None:
            yield plain(part.name)
        elif isinstance(part, ast.MatchMapping) and part.rest is not None:
            yield plain(part.rest)
        pending += reversed([child for child in ast.iter_child_nodes(part) if isinstance(child, ast.pattern)])


def _function(table: Table, node: ast.FunctionDef | ast.AsyncFunctionDef) -> ir.Statement:
    """Decorators, defaults and annotations belong to the scope outside: a `yield` in them does not count."""
    here = table.add(node)
    decorators = tuple([lower_expression(table, each) for each in node.decorator_list])
    parameters = lower_parameters(table, node.args)
    outer, table.yields = table.yields, False
    body = lower_statements(table, node.body)
    is_generator, table.yields = table.yields, outer
    is_async = isinstance(node, ast.AsyncFunctionDef)
    return ir.Function(here, plain(node.name), parameters, body, decorators, is_async, is_generator)


def _class(table: Table, node: ast.ClassDef) -> ir.Statement:
    """Bases are what stands before the first keyword, as libcst has it."""
    here = table.add(node)
    decorators = tuple([lower_expression(table, each) for each in node.decorator_list])
    given = arguments(node)
    first = next((at for at, each in enumerate(given) if isinstance(each, ast.keyword)), len(given))
    bases = tuple([lower_expression(table, each) for each in given[:first]])
    keywords = tuple([lower_argument(table, each) for each in given[first:]])
    return ir.Class(here, plain(node.name), bases, keywords, lower_statements(table, node.body), decorators)


LOWER: dict[type[ast.AST], Callable[[Table, Any], ir.Statement]] = {
    ast.Expr: _evaluate, ast.Assign: _assign, ast.AnnAssign: _annotated, ast.AugAssign: _augment,
    ast.Return: _return, ast.Raise: _raise, ast.Assert: _assert, ast.Delete: _delete,
    ast.Break: _break, ast.Continue: _continue, ast.Pass: _pass, ast.Global: _scope, ast.Nonlocal: _scope,
    ast.Import: _import, ast.ImportFrom: _import_from,
    ast.If: _if, ast.For: _for, ast.AsyncFor: _for, ast.While: _while, ast.With: _with, ast.AsyncWith: _with,
    ast.Try: _try, ast.Match: _match, ast.FunctionDef: _function, ast.AsyncFunctionDef: _function,
    ast.ClassDef: _class,
}  # fmt: skip

for _newer, _lower in (("TryStar", _try), ("TypeAlias", _type_alias)):  # of Python 3.11 and 3.12
    if hasattr(ast, _newer):
        LOWER[getattr(ast, _newer)] = _lower
