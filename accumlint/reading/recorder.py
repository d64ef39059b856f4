"""The one place that uses private names of libcst: a code generation that only counts lines and columns."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeAlias

import libcst as cst
from libcst._nodes.internal import CodegenState

Range: TypeAlias = tuple[int, int, int, int]

NEWLINE = re.compile(r"\r\n?|\n")
UNMARKED = (cst.Index, cst.Slice, cst.Arg, cst.StarredElement)


def recorded_ranges(module: cst.Module, nodes: Sequence[cst.CSTNode]) -> dict[int, Range]:
    """(line, column, end line, end column) by `id` of each of `nodes`."""
    state = _State(module.default_indent, module.default_newline, nodes)
    module._codegen(state)
    return state.found


class _State(CodegenState):
    """Counts lines and columns, and keeps the ranges of the wanted nodes (by `id`).

    libcst marks the range that belongs to a node, without white space it owns, by `with record_syntactic_position`:
    the state is its own context manager. Kinds without a mark (`Slice`, `Arg`) have the range of all they generate.
    """

    def __init__(self, default_indent: str, default_newline: str, nodes: Sequence[cst.CSTNode]) -> None:
        super().__init__(default_indent, default_newline)
        self.line = 1
        self.column = 0
        self.wanted = {id(node) for node in nodes}
        self.found: dict[int, Range] = {}
        self.unmarked = {id(node) for node in nodes if isinstance(node, UNMARKED)}
        self.starts: list[tuple[int, int]] = []
        self.marks: list[tuple[int, int | None, int, int]] = []
        self.ends: dict[int, tuple[int, int]] = {}

    def add_indent_tokens(self) -> None:
        for token in self.indent_tokens:
            self.add_token(token)

    def add_token(self, value: str) -> None:
        self.tokens.append(value)
        if "\n" in value or "\r" in value:
            pieces = NEWLINE.split(value)
            self.line += len(pieces) - 1
            self.column = len(pieces[-1])
        else:
            self.column += len(value)

    def before_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.unmarked:
            self.starts.append((self.line, self.column))

    def after_codegen(self, node: cst.CSTNode) -> None:
        if id(node) in self.unmarked:
            self.found.setdefault(id(node), (*self.starts.pop(), self.line, self.column))

    def record_syntactic_position(  # type: ignore[override]
        self, node: cst.CSTNode, *, start_node: cst.CSTNode | None = None, end_node: cst.CSTNode | None = None
    ) -> _State:
        self.marks.append((id(node), None if end_node is None else id(end_node), self.line, self.column))
        return self

    def __enter__(self) -> None:
        return None

    def __exit__(self, *_: object) -> None:
        node, end_node, line, column = self.marks.pop()
        end = (self.line, self.column)
        if end_node is not None:
            end = self.ends.get(end_node, end)
        self.ends[node] = end
        if node in self.wanted:
            self.found[node] = (line, column, *end)
