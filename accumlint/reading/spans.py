"""Positions of concrete nodes, in one code generation that records nothing but what was asked for.

libcst's own `PositionProvider` records a position for every node and costs about five times as much; it is the fallback
if the private names used here should go away, and a test holds that both agree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import libcst as cst

from accumlint.reading.program import Span
from accumlint.reading.recursion import deep_recursion

NEWLINE = re.compile(r"\r\n?|\n")


def compute_spans(module: cst.Module, nodes: Sequence[cst.CSTNode], source: str) -> list[Span]:
    """The spans of `nodes`, in their order: as `PositionProvider` has them (no parentheses, comments, decorators)."""
    try:
        from accumlint.reading.recorder import recorded_ranges
    except ImportError:  # the private names are gone
        spans = provider_spans(module, nodes)
    else:
        with deep_recursion():
            found = recorded_ranges(module, nodes)
        spans = [Span(*found[id(node)]) for node in nodes]
    return _restore_form_feeds(spans, module, source) if "\f" in source else spans


def provider_spans(module: cst.Module, nodes: Sequence[cst.CSTNode]) -> list[Span]:
    """The same by libcst's public interface: slower."""
    from libcst.metadata import MetadataWrapper, PositionProvider

    with deep_recursion():
        ranges = MetadataWrapper(module, unsafe_skip_copy=True).resolve(PositionProvider)
    found = [ranges[node] for node in nodes]
    return [Span(each.start.line, each.start.column, each.end.line, each.end.column) for each in found]


def _restore_form_feeds(spans: list[Span], module: cst.Module, source: str) -> list[Span]:
    """libcst drops a form feed before an indentation: shift the columns of such lines back."""
    kept = NEWLINE.split(module.code)
    shifts = {
        number: len(line) - len(kept[number - 1])
        for number, line in enumerate(NEWLINE.split(source), 1)
        if number <= len(kept) and line != kept[number - 1] and line.endswith(kept[number - 1])
    }
    return [
        Span(
            span.line,
            span.column + shifts.get(span.line, 0),
            span.end_line,
            span.end_column + shifts.get(span.end_line, 0),
        )
        for span in spans
    ]
