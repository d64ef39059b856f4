"""Positions of concrete nodes, in one code generation that records nothing but what was asked for.

libcst's own `PositionProvider` records a position for every node and costs about five times as much; it is the fallback
if the private names used here should go away, and a test holds that both agree.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import libcst as cst

from accumlint.reading.program import Span

RECURSION_LIMIT = 20_000


def compute_spans(module: cst.Module, nodes: Sequence[cst.CSTNode]) -> list[Span]:
    """The spans of `nodes`, in their order: as `PositionProvider` has them (no parentheses, comments, decorators)."""
    try:
        from accumlint.reading.recorder import recorded_ranges
    except ImportError:  # the private names are gone
        return provider_spans(module, nodes)
    with deep_recursion():
        found = recorded_ranges(module, nodes)
    return [Span(*found[id(node)]) for node in nodes]


def provider_spans(module: cst.Module, nodes: Sequence[cst.CSTNode]) -> list[Span]:
    """The same by libcst's public interface: slower."""
    from libcst.metadata import MetadataWrapper, PositionProvider

    with deep_recursion():
        ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    found = [ranges[node] for node in nodes]
    return [Span(each.start.line, each.start.column, each.end.line, each.end.column) for each in found]


@contextmanager
def deep_recursion() -> Iterator[None]:
    """libcst generates code recursively, several frames a level; depth itself is bounded by `table.MAX_DEPTH`."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
