"""`ConcreteSyntax`: from a `NodeId` back to the concrete node, its position and its text, each computed on demand."""

from __future__ import annotations

from collections.abc import Sequence

import libcst as cst

from accumlint.reading import ir
from accumlint.reading.program import Span
from accumlint.reading.recursion import deep_recursion
from accumlint.reading.spans import compute_spans
from accumlint.reading.text import header_text


class ConcreteSyntax:
    """Implements `program.Syntax`. `node`, `module` and `is_exact` are for `repair/`."""

    __slots__ = ("_first", "_nodes", "_spans", "_texts", "module", "source")

    def __init__(self, module: cst.Module, nodes: Sequence[cst.CSTNode], source: str, first: ir.NodeId = 0) -> None:
        self.module = module
        self._first = first
        self.source = source
        self._nodes = nodes
        self._spans: list[Span] | None = None
        self._texts: dict[ir.NodeId, str] = {}

    def __len__(self) -> int:
        return len(self._nodes)

    @property
    def is_exact(self) -> bool:
        """Does `module.code` give the source back? Not so after a form feed in an indentation, a BOM or a last CR."""
        with deep_recursion():
            return self.module.code == self.source

    def node(self, node: ir.NodeId) -> cst.CSTNode:
        return self._nodes[node - self._first]

    def span(self, node: ir.NodeId) -> Span:
        """The first call computes the positions of all nodes in one pass."""
        if self._spans is None:
            self._spans = compute_spans(self.module, self._nodes, self.source)
        return self._spans[node - self._first]

    def text(self, node: ir.NodeId) -> str:
        text = self._texts.get(node)
        if text is None:
            text = self._texts[node] = header_text(self.module, self._nodes[node - self._first])
        return text
