"""`AstSyntax`: from a `NodeId` back to its position and text, by Python's own `ast` where that knows them.

It drops parentheses: where those of a tuple stand, or whether an expression has some, is asked of libcst, which reads
the file for it once. Both readings have the same ids; should they ever differ, the position by `ast` has to do.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from accumlint.reading import ir
from accumlint.reading.errors import ReadError
from accumlint.reading.one_line import one_line
from accumlint.reading.program import Span

if TYPE_CHECKING:
    from accumlint.reading.syntax import ConcreteSyntax

PLAIN = (
    ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant, ast.BinOp, ast.Compare, ast.BoolOp, ast.UnaryOp,
)  # fmt: skip
_AFTER = re.compile(r"(?:\s|\#[^\r\n]*|\\\r?\n)*")
_LAST_OF_PARAMETERS = re.compile(r"(?:\s|\#[^\r\n]*|\\\r?\n|[,/])*\)")


class AstSyntax:
    """Implements `program.Syntax`. A node in a tuple of one stands near the place that is meant and not at it."""

    def __init__(
        self,
        body: tuple[ir.Statement, ...],
        nodes: Sequence[Any],
        source: str,
        lines: Sequence[str],
        first: ir.NodeId = 0,
    ) -> None:
        self.source = source
        self._body = body
        self._nodes = nodes
        self._lines = lines
        self._first = first
        self._texts: dict[ir.NodeId, str] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    def span(self, node: ir.NodeId) -> Span:
        found = self._nodes[node - self._first]
        if self._is_exact(found) or self.concrete is None:
            return self._span(found[0] if isinstance(found, tuple) else found)
        return self.concrete.span(node)

    def text(self, node: ir.NodeId) -> str:
        text = self._texts.get(node)
        if text is None:
            found = self._nodes[node - self._first]
            text = None if isinstance(found, tuple) else self._header(found)
            if text is None:
                text = self.concrete.text(node) if self.concrete is not None else self._code(found)
            self._texts[node] = text
        return text

    @cached_property
    def concrete(self) -> ConcreteSyntax | None:
        """The same file as libcst reads it; None if that refuses it or sees something else in it."""
        from accumlint.reading.read_concrete import read_concrete

        try:
            body, syntax = read_concrete(self.source, list(self._lines), self._first)
        except ReadError:
            return None
        return syntax if body == self._body else None

    # ------------------------------------------------------------------------------------------- positions

    def _is_exact(self, node: Any) -> bool:
        """Whether `ast` puts a node where libcst does."""
        if isinstance(node, ast.Tuple):
            return self._lines[node.lineno - 1][self._column(node.lineno, node.col_offset)] != "("
        return not isinstance(node, (tuple, ast.GeneratorExp, ast.Slice, ast.Starred))

    def _span(self, node: Any) -> Span:
        """A compound statement ends with its last statement, and not with a semicolon after that."""
        last = node
        while (inner := _last_statement(last)) is not None:
            last = inner
        line, end = node.lineno, last.end_lineno
        return Span(line, self._column(line, node.col_offset), end, self._column(end, last.end_col_offset))

    def _column(self, line: int, offset: int) -> int:
        """A column in code points from one in bytes of UTF-8."""
        text = self._lines[line - 1]
        return offset if text.isascii() else len(text.encode("utf-8")[:offset].decode("utf-8"))

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer(r"\r\n?|\n", self.source))]

    def _range(self, node: Any) -> tuple[int, int]:
        span = self._span(node)
        return self._starts[span.line - 1] + span.column, self._starts[span.end_line - 1] + span.end_column

    # ------------------------------------------------------------------------------------------------ text

    def _code(self, node: Any) -> str:
        start, end = self._range(node[0] if isinstance(node, tuple) else node)
        return one_line(self.source[start:end])

    def _header(self, node: ast.AST) -> str | None:
        """None where only libcst can tell."""
        match node:
            case ast.If() | ast.While():
                test = self._bare(node.test)
                return None if test is None else f"{type(node).__name__.lower()} {test}"
            case ast.For():
                target, iterable = self._bare(node.target), self._bare(node.iter)
                return None if target is None or iterable is None else f"for {target} in {iterable}"
            case ast.FunctionDef():
                parameters = self._parameters(node)
                return None if parameters is None else f"def {node.name}({parameters})"
            case ast.Expr() | ast.Assign() | ast.AnnAssign() | ast.AugAssign() | ast.Return() | ast.Raise():
                return self._code(node)
            case _:
                return self._bare(node)

    def _bare(self, node: ast.AST) -> str | None:
        """The code of an expression that surely has no parentheses around it, which would belong to its text."""
        if not isinstance(node, PLAIN) and not (isinstance(node, ast.Tuple) and self._is_exact(node)):
            return None
        start, end = self._range(node)
        before, following = self.source[:start].rstrip(" \t"), _AFTER.match(self.source, end)
        closes = following is not None and self.source.startswith(")", following.end())
        if closes and before.endswith(("(", "\n", "\r", "\\")):
            return None
        return one_line(self.source[start:end])

    def _parameters(self, node: ast.FunctionDef) -> str | None:
        given = node.args
        parts: list[Any] = [*given.posonlyargs, *given.args, *given.kwonlyargs, *given.defaults, *given.kw_defaults]
        ends = [self._range(part)[1] for part in (*parts, given.vararg, given.kwarg) if part is not None]
        begin = self.source.find("(", self._range(node)[0]) + 1
        closing = _LAST_OF_PARAMETERS.match(self.source, max(ends, default=begin))
        if getattr(node, "type_params", ()) or closing is None:
            return None
        return one_line(self.source[begin : closing.end() - 1])


def _last_statement(node: Any) -> ast.stmt | None:
    """The last statement inside of a compound one; None for any other node."""
    if not isinstance(node, (ast.stmt, ast.ExceptHandler, ast.match_case)):
        return None
    for name in ("finalbody", "orelse", "handlers", "cases", "body"):
        inner = getattr(node, name, None)
        if inner:
            return inner[-1]  # type: ignore[no-any-return]
    return None
