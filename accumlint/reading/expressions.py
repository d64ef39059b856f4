"""Lowering of expressions: one function a libcst node kind, found by its type in `LOWER`."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import libcst as cst

from accumlint.reading import ir
from accumlint.reading.table import Table

BINARY: dict[type[cst.CSTNode], str] = {
    cst.Add: "+", cst.Subtract: "-", cst.Multiply: "*", cst.Divide: "/", cst.FloorDivide: "//", cst.Modulo: "%",
    cst.Power: "**", cst.MatrixMultiply: "@", cst.BitAnd: "&", cst.BitOr: "|", cst.BitXor: "^",
    cst.LeftShift: "<<", cst.RightShift: ">>",
}  # fmt: skip
UNARY: dict[type[cst.CSTNode], str] = {cst.Minus: "-", cst.Plus: "+", cst.BitInvert: "~", cst.Not: "not"}
BOOLEAN: dict[type[cst.CSTNode], str] = {cst.And: "and", cst.Or: "or"}
COMPARE: dict[type[cst.CSTNode], str] = {
    cst.Equal: "==", cst.NotEqual: "!=", cst.LessThan: "<", cst.LessThanEqual: "<=", cst.GreaterThan: ">",
    cst.GreaterThanEqual: ">=", cst.Is: "is", cst.IsNot: "is not", cst.In: "in", cst.NotIn: "not in",
}  # fmt: skip


def lower_expression(table: Table, node: cst.CSTNode) -> ir.Expression:
    """Lower any expression; a kind that is not known becomes `Unread` with its direct sub-expressions."""
    table.enter()
    lowered = LOWER.get(type(node), _unread)(table, node)
    table.depth -= 1
    return lowered


def lower_optional(table: Table, node: cst.CSTNode | None) -> ir.Expression | None:
    return None if node is None else lower_expression(table, node)


# ------------------------------------------------------------------------------------------------ literals


def _name(table: Table, node: cst.Name) -> ir.Expression:
    here = table.add(node)
    if node.value in CONSTANTS:
        return ir.Constant(here, CONSTANTS[node.value])
    return ir.Name(here, node.value)


CONSTANTS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def _ellipsis(table: Table, node: cst.Ellipsis) -> ir.Expression:
    return ir.Constant(table.add(node), ...)


def _number(table: Table, node: cst.Integer | cst.Float | cst.Imaginary) -> ir.Expression:
    here = table.add(node)
    try:
        return ir.Constant(here, ast.literal_eval(node.value))
    except (ValueError, SyntaxError):  # beyond the limit of digits, or Python 2's 0777
        return ir.Unread(here)


def _string(table: Table, node: cst.SimpleString | cst.ConcatenatedString | cst.FormattedString) -> ir.Expression:
    """A string of any kind: a `Constant`, or `Formatted` if one of its pieces is an f-string."""
    here = table.add(node)
    constants: list[str | bytes] = []
    inner: list[ir.Expression] = []
    is_formatted = is_broken = False
    for piece in _pieces(node):
        if isinstance(piece, cst.SimpleString):
            value = _string_value(piece.value)
            if value is None:
                is_broken = True
            else:
                constants.append(value)
        else:
            is_formatted = True
            inner.extend(_formatted_values(table, piece.parts))
    if is_formatted:
        return ir.Formatted(here, tuple(inner))
    texts = [value for value in constants if isinstance(value, str)]
    if is_broken or len(texts) not in (0, len(constants)):
        return ir.Unread(here)
    if texts:
        return ir.Constant(here, "".join(texts))
    return ir.Constant(here, b"".join(value for value in constants if isinstance(value, bytes)))


def _pieces(node: Any) -> Iterator[Any]:
    """The pieces of an implicit concatenation, left to right, however libcst nests them."""
    pending = [node]
    while pending:
        piece = pending.pop()
        if isinstance(piece, cst.ConcatenatedString):
            pending += (piece.right, piece.left)
        else:
            yield piece


def _string_value(source: str) -> str | bytes | None:
    if "\r" in source:
        source = source.replace("\r\n", "\n").replace("\r", "\n")
    if "\\" not in source and source[0] in "\"'":
        size = 3 if source[:3] in ('"""', "'''") else 1
        return source[size:-size]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = ast.literal_eval(source)
    except (ValueError, SyntaxError):
        return None
    return value if isinstance(value, (str, bytes)) else None


def _formatted_values(table: Table, parts: Sequence[Any]) -> Iterator[ir.Expression]:
    for part in parts:
        expression = getattr(part, "expression", None)
        if expression is not None:
            yield lower_expression(table, expression)
            yield from _formatted_values(table, part.format_spec or ())


# ----------------------------------------------------------------------------------------------- operators


def _attribute(table: Table, node: cst.Attribute) -> ir.Expression:
    return ir.Attribute(table.add(node), lower_expression(table, node.value), node.attr.value)


def _call(table: Table, node: cst.Call) -> ir.Expression:
    here = table.add(node)
    function = lower_expression(table, node.func)
    return ir.Call(here, function, tuple([lower_argument(table, argument) for argument in node.args]))


def lower_argument(table: Table, node: cst.Arg) -> ir.Argument:
    keyword = None if node.keyword is None else node.keyword.value
    return ir.Argument(lower_expression(table, node.value), keyword, node.star)


def _binary(table: Table, node: cst.BinaryOperation) -> ir.Expression:
    here = table.add(node)
    left = lower_expression(table, node.left)
    return ir.Binary(here, BINARY[type(node.operator)], left, lower_expression(table, node.right))


def _unary(table: Table, node: cst.UnaryOperation) -> ir.Expression:
    return ir.Unary(table.add(node), UNARY[type(node.operator)], lower_expression(table, node.expression))


def _boolean(table: Table, node: cst.BooleanOperation) -> ir.Expression:
    here = table.add(node)
    kind = type(node.operator)
    values: list[ir.Expression] = []
    pending: list[cst.BaseExpression] = [node.right, node.left]
    while pending:
        part = pending.pop()
        if isinstance(part, cst.BooleanOperation) and type(part.operator) is kind and not part.lpar:
            pending += (part.right, part.left)
        else:
            values.append(lower_expression(table, part))
    return ir.Boolean(here, BOOLEAN[kind], tuple(values))


def _comparison(table: Table, node: cst.Comparison) -> ir.Expression:
    here = table.add(node)
    left = lower_expression(table, node.left)
    operators = tuple([COMPARE[type(target.operator)] for target in node.comparisons])
    comparators = tuple([lower_expression(table, target.comparator) for target in node.comparisons])
    return ir.Compare(here, left, operators, comparators)


def _conditional(table: Table, node: cst.IfExp) -> ir.Expression:
    here = table.add(node)
    body = lower_expression(table, node.body)
    test = lower_expression(table, node.test)
    return ir.Conditional(here, test, body, lower_expression(table, node.orelse))


def _subscript(table: Table, node: cst.Subscript) -> ir.Expression:
    """Several indices have no concrete node of their own: their `Display` points at the whole subscript."""
    here = table.add(node)
    value = lower_expression(table, node.value)
    if len(node.slice) == 1 and not isinstance(node.slice[0].comma, cst.Comma):
        return ir.Subscript(here, value, _index(table, node.slice[0].slice))
    several = table.add(node)
    indices = tuple([_index(table, element.slice) for element in node.slice])
    return ir.Subscript(here, value, ir.Display(several, "tuple", indices))


def _index(table: Table, node: cst.BaseSlice) -> ir.Expression:
    if isinstance(node, cst.Index):
        if node.star:
            return ir.Starred(table.add(node), lower_expression(table, node.value))
        return lower_expression(table, node.value)
    assert isinstance(node, cst.Slice)
    here = table.add(node)
    lower, upper, step = (lower_optional(table, part) for part in (node.lower, node.upper, node.step))
    return ir.Slice(here, lower, upper, step)


# ------------------------------------------------------------------------------- displays, comprehensions


def _display(table: Table, node: cst.Tuple | cst.List | cst.Set) -> ir.Expression:
    here = table.add(node)
    elements = tuple([_element(table, element) for element in node.elements])
    return ir.Display(here, type(node).__name__.lower(), elements)


def _element(table: Table, node: cst.BaseElement) -> ir.Expression:
    return lower_expression(table, node if isinstance(node, cst.StarredElement) else node.value)


def _starred(table: Table, node: cst.StarredElement) -> ir.Expression:
    return ir.Starred(table.add(node), lower_expression(table, node.value))


def _dict(table: Table, node: cst.Dict) -> ir.Expression:
    here = table.add(node)
    items: list[tuple[ir.Expression | None, ir.Expression]] = []
    for element in node.elements:
        key = lower_expression(table, element.key) if isinstance(element, cst.DictElement) else None
        items.append((key, lower_expression(table, element.value)))
    return ir.DictDisplay(here, tuple(items))


def _comprehension(table: Table, node: cst.ListComp | cst.SetComp | cst.GeneratorExp) -> ir.Expression:
    here = table.add(node)
    element = lower_expression(table, node.elt)
    return ir.Comprehension(here, COMPREHENSION[type(node)], element, None, _clauses(table, node.for_in))


COMPREHENSION: dict[type[cst.CSTNode], str] = {cst.ListComp: "list", cst.SetComp: "set", cst.GeneratorExp: "generator"}


def _dict_comprehension(table: Table, node: cst.DictComp) -> ir.Expression:
    here = table.add(node)
    key = lower_expression(table, node.key)
    value = lower_expression(table, node.value)
    return ir.Comprehension(here, "dict", key, value, _clauses(table, node.for_in))


def _clauses(table: Table, node: cst.CompFor | None) -> tuple[ir.Clause, ...]:
    clauses: list[ir.Clause] = []
    while node is not None:
        target = lower_expression(table, node.target)
        iterable = lower_expression(table, node.iter)
        conditions = tuple([lower_expression(table, condition.test) for condition in node.ifs])
        clauses.append(ir.Clause(target, iterable, conditions, node.asynchronous is not None))
        node = node.inner_for_in
    return tuple(clauses)


# ------------------------------------------------------------------------------------------ everything else


def _lambda(table: Table, node: cst.Lambda) -> ir.Expression:
    here = table.add(node)
    parameters = lower_parameters(table, node.params)
    yields, table.yields = table.yields, False
    body = lower_expression(table, node.body)
    table.yields = yields
    return ir.Lambda(here, parameters, body)


def lower_parameters(table: Table, node: cst.Parameters) -> tuple[ir.Parameter, ...]:
    """Parameters in the order of the source; a bare `*` only makes what follows keyword only."""
    parameters = [_parameter(table, each, "positional") for each in (*node.posonly_params, *node.params)]
    if isinstance(node.star_arg, cst.Param):
        parameters.append(_parameter(table, node.star_arg, "*"))
    parameters.extend([_parameter(table, each, "keyword") for each in node.kwonly_params])
    if node.star_kwarg is not None:
        parameters.append(_parameter(table, node.star_kwarg, "**"))
    return tuple(parameters)


def _parameter(table: Table, node: cst.Param, kind: str) -> ir.Parameter:
    annotation = None if node.annotation is None else lower_expression(table, node.annotation.annotation)
    return ir.Parameter(node.name.value, lower_optional(table, node.default), annotation, kind)


def _walrus(table: Table, node: cst.NamedExpr) -> ir.Expression:
    here = table.add(node)
    target = lower_expression(table, node.target)
    value = lower_expression(table, node.value)
    return ir.Walrus(here, target, value) if isinstance(target, ir.Name) else ir.Unread(here, (target, value))


def _await(table: Table, node: cst.Await) -> ir.Expression:
    return ir.Await(table.add(node), lower_expression(table, node.expression))


def _yield(table: Table, node: cst.Yield) -> ir.Expression:
    table.yields = True
    here = table.add(node)
    if isinstance(node.value, cst.From):
        return ir.Yield(here, lower_expression(table, node.value.item), is_from=True)
    return ir.Yield(here, lower_optional(table, node.value))


def _unread(table: Table, node: cst.CSTNode) -> ir.Expression:
    here = table.add(node)
    values = [lower_expression(table, child) for child in node.children if isinstance(child, cst.BaseExpression)]
    return ir.Unread(here, tuple(values))


LOWER: dict[type[cst.CSTNode], Callable[[Table, Any], ir.Expression]] = {
    cst.Name: _name, cst.Ellipsis: _ellipsis,
    cst.Integer: _number, cst.Float: _number, cst.Imaginary: _number,
    cst.SimpleString: _string, cst.ConcatenatedString: _string, cst.FormattedString: _string,
    cst.Attribute: _attribute, cst.Call: _call, cst.Subscript: _subscript,
    cst.BinaryOperation: _binary, cst.UnaryOperation: _unary, cst.BooleanOperation: _boolean,
    cst.Comparison: _comparison, cst.IfExp: _conditional,
    cst.Tuple: _display, cst.List: _display, cst.Set: _display, cst.Dict: _dict, cst.StarredElement: _starred,
    cst.ListComp: _comprehension, cst.SetComp: _comprehension, cst.GeneratorExp: _comprehension,
    cst.DictComp: _dict_comprehension, cst.Lambda: _lambda, cst.NamedExpr: _walrus,
    cst.Await: _await, cst.Yield: _yield,
}  # fmt: skip

if hasattr(cst, "TemplatedString"):  # libcst 1.8.3 and later
    LOWER[cst.TemplatedString] = _string
