"""A module as the upper layers receive it: its statements, and the way back from a node to the source."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # a run that checks nothing, as all is known, need not build the classes of the IR
    from accumlint.reading import ir
    from accumlint.reading.contracts import LossContract


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """A range of the source. Lines from 1, columns from 0, counted in code points; `end` is exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int


class Syntax(Protocol):
    """The way back from a `NodeId`; positions and text are computed on demand and remembered."""

    @property
    def source(self) -> str:
        """The text that was read; positions are positions in it."""
        ...

    def span(self, node: ir.NodeId) -> Span: ...

    def text(self, node: ir.NodeId) -> str:
        """The source text of an expression or the header of a statement, on one line, comments dropped."""
        ...


@dataclass(frozen=True, slots=True)
class Module:
    """One lowered file. `name` is the dotted name inside a project, or "" when there is no project."""

    filename: str
    body: tuple[ir.Statement, ...]
    syntax: Syntax
    name: str = ""
    lines: Sequence[str] = ()
    contracts: tuple[LossContract, ...] = ()  # of the configuration, for losses that the file does not show
    _nodes: list[ir.Statement | ir.Expression] = field(default_factory=list, init=False, compare=False, repr=False)

    @property
    def nodes(self) -> list[ir.Statement | ir.Expression]:
        """All statements and expressions of the file, ids ascending; they are walked once, whoever asks."""
        if not self._nodes:
            from accumlint.reading.walk import walk

            self._nodes.extend(walk(self.body))
        return self._nodes

    def each_node(self) -> Iterable[ir.Statement | ir.Expression]:
        """The same, without keeping them if they are not known yet."""
        from accumlint.reading.walk import walk

        return self._nodes or walk(self.body)

    def nodes_made(self, nodes: Iterable[ir.Statement | ir.Expression]) -> None:
        """Take what the reader made, in any order, for `nodes`: they need not be walked then."""
        self._nodes[:] = sorted(nodes, key=attrgetter("node"))
