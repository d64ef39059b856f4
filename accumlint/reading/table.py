"""The table of syntax nodes that lowering fills; a `NodeId` is an index into it, after its `first`."""

from __future__ import annotations

from typing import Any

from accumlint.reading import ir

MAX_DEPTH = 200
"""No IR node lies deeper than this (statements and expressions counted together, an `elif` as one level)."""


class TooDeepError(Exception):
    """The source nests deeper than `MAX_DEPTH`."""


class Table:
    """Hands out node ids in order, bounds the depth, and remembers whether the current function yields."""

    __slots__ = ("depth", "first", "lowered", "nodes", "yields")

    def __init__(self, first: ir.NodeId = 0) -> None:
        self.first = first
        self.nodes: list[Any] = []  # of libcst or of ast
        self.lowered: list[ir.Statement | ir.Expression] = []  # what was made of them, a parent after its parts
        self.depth = 0
        self.yields = False

    def add(self, node: Any) -> ir.NodeId:
        self.nodes.append(node)
        return self.first + len(self.nodes) - 1

    def enter(self) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooDeepError
