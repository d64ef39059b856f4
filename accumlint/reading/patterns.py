"""Lowering of `case` patterns: what they bind, and the literal they compare with if they are one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import libcst as cst

from accumlint.reading import ir
from accumlint.reading.expressions import lower_expression
from accumlint.reading.table import Table


@dataclass(frozen=True, slots=True)
class Pattern:
    value: ir.Expression | None
    names: tuple[str, ...]
    is_wildcard: bool


def lower_case(table: Table, node: cst.MatchPattern) -> Pattern:
    """Only a plain value (`case 3:`, `case Mode.TRAIN:`, `case None:`) is kept; `_` and a bare name match all."""
    value = None
    if isinstance(node, (cst.MatchValue, cst.MatchSingleton)):
        value = lower_expression(table, node.value)
    is_wildcard = isinstance(node, cst.MatchAs) and node.pattern is None
    return Pattern(value, tuple(dict.fromkeys(_bound_names(node))), is_wildcard)


def _bound_names(node: cst.CSTNode) -> Iterator[str]:
    pending = [node]
    while pending:
        part = pending.pop()
        name: cst.CSTNode | None = None
        if isinstance(part, (cst.MatchAs, cst.MatchStar)):
            name = part.name
        elif isinstance(part, cst.MatchMapping):
            name = part.rest
        if isinstance(name, cst.Name):
            yield name.value
        pending += reversed([child for child in part.children if _may_bind(child)])


def _may_bind(node: cst.CSTNode) -> bool:
    return not isinstance(node, (cst.BaseExpression, cst.BaseParenthesizableWhitespace, cst.Comma))
