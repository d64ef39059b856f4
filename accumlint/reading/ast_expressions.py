"""Lowering of Python's own `ast`, expressions: the same IR, with the same ids, as from libcst, at a tenth of the cost.

`expressions.py` is the other half of the pair: what is changed in one is changed in both. A test holds that they agree.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import Any

from accumlint.reading import ir
from accumlint.reading.table import MAX_DEPTH, Table, TooDeepError

BINARY: dict[type[ast.AST], str] = {
    ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/", ast.FloorDiv: "//", ast.Mod: "%", ast.Pow: "**",
    ast.MatMult: "@", ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.LShift: "<<", ast.RShift: ">>",
}  # fmt: skip
UNARY: dict[type[ast.AST], str] = {ast.USub: "-", ast.UAdd: "+", ast.Invert: "~", ast.Not: "not"}
COMPARE: dict[type[ast.AST], str] = {
    ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Is: "is",
    ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip


class UnlikeError(Exception):
    """A text that libcst reads in another way: names that are not ASCII are normalised by `ast`, for one."""


def lower_expression(table: Table, node: ast.AST) -> ir.Expression:
    """Lower any expression. Raises `UnlikeError` for one that is better left to libcst."""
    table.depth = depth = table.depth + 1  # `Table.enter`, written out: this is called for each node
    if depth > MAX_DEPTH:
        raise TooDeepError
    lower = LOWER.get(type(node))
    if lower is None:
        raise UnlikeError(type(node).__name__)
    lowered = lower(table, node)
    table.lowered.append(lowered)
    table.depth = depth - 1
    return lowered


def lower_optional(table: Table, node: ast.AST | None) -> ir.Expression | None:
    return None if node is None else lower_expression(table, node)


def plain(name: str) -> str:
    """An identifier as it is written: one beyond ASCII may have been normalised."""
    if not name.isascii():
        raise UnlikeError(name)
    return name


# ------------------------------------------------------------------------------------------------ literals


def _name(table: Table, node: ast.Name) -> ir.Expression:
    return ir.Name(table.add(node), plain(node.id))


def _constant(table: Table, node: ast.Constant) -> ir.Expression:
    return ir.Constant(table.add(node), node.value)


def _formatted(table: Table, node: ast.JoinedStr) -> ir.Expression:
    """Before Python 3.12 the positions inside of an f-string are wrong, so they are left to libcst."""
    here = table.add(node)
    inside = len(table.nodes)
    values = tuple(_formatted_values(table, node.values))
    table.nodes[inside:] = [(node,)] * (len(table.nodes) - inside)
    return ir.Formatted(here, values)


def _formatted_values(table: Table, parts: list[Any]) -> Iterator[ir.Expression]:
    for part in parts:
        if not isinstance(part, ast.Constant):
            yield lower_expression(table, part.value)
            if part.format_spec is not None:
                yield from _formatted_values(table, part.format_spec.values)


# ----------------------------------------------------------------------------------------------- operators


def _attribute(table: Table, node: ast.Attribute) -> ir.Expression:
    return ir.Attribute(table.add(node), lower_expression(table, node.value), plain(node.attr))


def _call(table: Table, node: ast.Call) -> ir.Expression:
    here = table.add(node)
    function = lower_expression(table, node.func)
    return ir.Call(here, function, tuple([lower_argument(table, each) for each in arguments(node)]))


def arguments(node: ast.Call | ast.ClassDef) -> list[ast.expr | ast.keyword]:
    """Arguments in the order of the source, which `ast` tears apart."""
    positional = node.args if isinstance(node, ast.Call) else node.bases
    if not node.keywords or not positional:
        return [*positional, *node.keywords]
    return sorted([*positional, *node.keywords], key=lambda each: (each.lineno, each.col_offset))


def lower_argument(table: Table, node: ast.expr | ast.keyword) -> ir.Argument:
    if isinstance(node, ast.keyword):
        value = lower_expression(table, node.value)
        return ir.Argument(value, None, "**") if node.arg is None else ir.Argument(value, plain(node.arg))
    if isinstance(node, ast.Starred):
        return ir.Argument(lower_expression(table, node.value), None, "*")
    return ir.Argument(lower_expression(table, node))


def _binary(table: Table, node: ast.BinOp) -> ir.Expression:
    here = table.add(node)
    left = lower_expression(table, node.left)
    return ir.Binary(here, BINARY[type(node.op)], left, lower_expression(table, node.right))


def _unary(table: Table, node: ast.UnaryOp) -> ir.Expression:
    return ir.Unary(table.add(node), UNARY[type(node.op)], lower_expression(table, node.operand))


def _boolean(table: Table, node: ast.BoolOp) -> ir.Expression:
    here = table.add(node)
    operator = "and" if isinstance(node.op, ast.And) else "or"
    return ir.Boolean(here, operator, tuple([lower_expression(table, value) for value in node.values]))


def _comparison(table: Table, node: ast.Compare) -> ir.Expression:
    here = table.add(node)
    left = lower_expression(table, node.left)
    operators = tuple([COMPARE[type(operator)] for operator in node.ops])
    return ir.Compare(here, left, operators, tuple([lower_expression(table, each) for each in node.comparators]))


def _conditional(table: Table, node: ast.IfExp) -> ir.Expression:
    here = table.add(node)
    body = lower_expression(table, node.body)
    test = lower_expression(table, node.test)
    return ir.Conditional(here, test, body, lower_expression(table, node.orelse))


def _subscript(table: Table, node: ast.Subscript) -> ir.Expression:
    """Several indices are a tuple; where it stands is told by libcst, for `ast` keeps no parentheses."""
    here = table.add(node)
    value = lower_expression(table, node.value)
    if not isinstance(node.slice, ast.Tuple):
        return ir.Subscript(here, value, lower_expression(table, node.slice))
    if len(node.slice.elts) == 1 and isinstance(node.slice.elts[0], ast.Starred):
        raise UnlikeError("x[*a] and x[*a,] are the same to ast")
    table.enter()
    several = table.add((node.slice,))
    indices = tuple([lower_expression(table, element) for element in node.slice.elts])
    table.depth -= 1
    table.lowered.append(index := ir.Display(several, "tuple", indices))
    return ir.Subscript(here, value, index)


def _slice(table: Table, node: ast.Slice) -> ir.Expression:
    here = table.add(node)
    lower, upper, step = (lower_optional(table, part) for part in (node.lower, node.upper, node.step))
    return ir.Slice(here, lower, upper, step)


# ------------------------------------------------------------------------------- displays, comprehensions


def _display(table: Table, node: ast.Tuple | ast.List | ast.Set) -> ir.Expression:
    here = table.add(node)
    elements = tuple([lower_expression(table, element) for element in node.elts])
    return ir.Display(here, type(node).__name__.lower(), elements)


def _starred(table: Table, node: ast.Starred) -> ir.Expression:
    return ir.Starred(table.add(node), lower_expression(table, node.value))


def _dict(table: Table, node: ast.Dict) -> ir.Expression:
    here = table.add(node)
    items: list[tuple[ir.Expression | None, ir.Expression]] = []
    for key, value in zip(node.keys, node.values, strict=True):
        lowered = lower_optional(table, key)
        items.append((lowered, lower_expression(table, value)))
    return ir.DictDisplay(here, tuple(items))


def _comprehension(table: Table, node: ast.ListComp | ast.SetComp | ast.GeneratorExp) -> ir.Expression:
    here = table.add(node)
    element = lower_expression(table, node.elt)
    return ir.Comprehension(here, COMPREHENSION[type(node)], element, None, _clauses(table, node.generators))


COMPREHENSION: dict[type[ast.AST], str] = {ast.ListComp: "list", ast.SetComp: "set", ast.GeneratorExp: "generator"}


def _dict_comprehension(table: Table, node: ast.DictComp) -> ir.Expression:
    here = table.add(node)
    key = lower_expression(table, node.key)
    value = lower_expression(table, node.value)
    return ir.Comprehension(here, "dict", key, value, _clauses(table, node.generators))


def _clauses(table: Table, nodes: list[ast.comprehension]) -> tuple[ir.Clause, ...]:
    clauses: list[ir.Clause] = []
    for node in nodes:
        target = lower_expression(table, node.target)
        iterable = lower_expression(table, node.iter)
        conditions = tuple([lower_expression(table, condition) for condition in node.ifs])
        clauses.append(ir.Clause(target, iterable, conditions, bool(node.is_async)))
    return tuple(clauses)


# ------------------------------------------------------------------------------------------ everything else


def _lambda(table: Table, node: ast.Lambda) -> ir.Expression:
    here = table.add(node)
    parameters = lower_parameters(table, node.args)
    yields, table.yields = table.yields, False
    body = lower_expression(table, node.body)
    table.yields = yields
    return ir.Lambda(here, parameters, body)


def lower_parameters(table: Table, node: ast.arguments) -> tuple[ir.Parameter, ...]:
    """Parameters in the order of the source; a bare `*` only makes what follows keyword only."""
    plain_ones = [*node.posonlyargs, *node.args]
    defaults: list[ast.expr | None] = [*[None] * (len(plain_ones) - len(node.defaults)), *node.defaults]
    pairs = zip(plain_ones, defaults, strict=True)
    parameters = [_parameter(table, each, default, "positional") for each, default in pairs]
    if node.vararg is not None:
        parameters.append(_parameter(table, node.vararg, None, "*"))
    keywords = zip(node.kwonlyargs, node.kw_defaults, strict=True)
    parameters.extend([_parameter(table, each, default, "keyword") for each, default in keywords])
    if node.kwarg is not None:
        parameters.append(_parameter(table, node.kwarg, None, "**"))
    return tuple(parameters)


def _parameter(table: Table, node: ast.arg, default: ast.expr | None, kind: str) -> ir.Parameter:
    annotation = lower_optional(table, node.annotation)
    return ir.Parameter(plain(node.arg), lower_optional(table, default), annotation, kind)


def _walrus(table: Table, node: ast.NamedExpr) -> ir.Expression:
    here = table.add(node)
    target = lower_expression(table, node.target)
    assert isinstance(target, ir.Name)
    return ir.Walrus(here, target, lower_expression(table, node.value))


def _await(table: Table, node: ast.Await) -> ir.Expression:
    return ir.Await(table.add(node), lower_expression(table, node.value))


def _yield(table: Table, node: ast.Yield | ast.YieldFrom) -> ir.Expression:
    table.yields = True
    here = table.add(node)
    return ir.Yield(here, lower_optional(table, node.value), is_from=isinstance(node, ast.YieldFrom))


LOWER: dict[type[ast.AST], Callable[[Table, Any], ir.Expression]] = {
    ast.Name: _name, ast.Constant: _constant, ast.JoinedStr: _formatted, ast.Attribute: _attribute, ast.Call: _call,
    ast.Subscript: _subscript, ast.Slice: _slice, ast.BinOp: _binary, ast.UnaryOp: _unary, ast.BoolOp: _boolean,
    ast.Compare: _comparison, ast.IfExp: _conditional,
    ast.Tuple: _display, ast.List: _display, ast.Set: _display, ast.Dict: _dict, ast.Starred: _starred,
    ast.ListComp: _comprehension, ast.SetComp: _comprehension, ast.GeneratorExp: _comprehension,
    ast.DictComp: _dict_comprehension, ast.Lambda: _lambda, ast.NamedExpr: _walrus,
    ast.Await: _await, ast.Yield: _yield, ast.YieldFrom: _yield,
}  # fmt: skip
