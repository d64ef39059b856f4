"""A text with the edits of its repairs made."""

from __future__ import annotations

from collections.abc import Iterable

from accumlint.findings import Edit
from accumlint.source.positions import Positions


def edited(text: str, edits: Iterable[Edit]) -> str:
    """The text with all edits made. Raises ValueError if two overlap."""
    positions = Positions(text)
    pieces: list[str] = []
    done = 0
    for edit in sorted(edits, key=lambda edit: edit.span):
        start = positions.offset(edit.span.line, edit.span.column)
        end = positions.offset(edit.span.end_line, edit.span.end_column)
        if start < done:
            raise ValueError(f"the edits of a repair overlap in line {edit.span.line}")
        pieces += (text[done:start], edit.content)
        done = end
    return "".join((*pieces, text[done:]))
