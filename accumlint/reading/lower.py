"""Lowering: a concrete module to IR statements and the table that leads back.

`Table` hands out the ids: one for each IR node, in the order of lowering, which is the order of the source (a parent
before its parts). It also bounds the depth of the IR, so that every layer above may recurse over a node without fear.
"""

from __future__ import annotations

import libcst as cst

from accumlint.reading import ir
from accumlint.reading.statements import lower_statements
from accumlint.reading.syntax import ConcreteSyntax
from accumlint.reading.table import Table


def lower_module(
    module: cst.Module, text: str, first: ir.NodeId = 0
) -> tuple[tuple[ir.Statement, ...], ConcreteSyntax]:
    """Lower every statement of `module`, parsed from `text`. Raises `TooDeepError` beyond `table.MAX_DEPTH`."""
    table = Table(first)
    body = lower_statements(table, module.body)
    return body, ConcreteSyntax(module, table.nodes, text, first)
