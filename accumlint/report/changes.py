"""What a repair changes, below its finding: the lines before and after, with a line of context."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import SequenceMatcher

from accumlint.findings import Fix
from accumlint.report.edited import edited
from accumlint.report.model import CheckedFile
from accumlint.report.styled import Line, Piece, line
from accumlint.source.text import split_lines

CONTEXT = 1


def changes(file: CheckedFile, fix: Fix) -> Iterator[Line]:
    """Removed lines with their numbers, added ones without; `...` where lines are left out."""
    if file.source is None or not fix.edits:
        return
    old, new = file.source.lines, split_lines(edited(file.source.text, fix.edits))
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    groups = list(matcher.get_grouped_opcodes(CONTEXT))
    digits = max((len(str(file.place(group[-1][2]).row)) for group in groups), default=1)
    for number, group in enumerate(groups):
        if number:
            yield _line("", digits, "...", "gutter")
        for tag, first, last, start, end in group:
            if tag == "equal":
                yield from (
                    _line(str(file.place(at + 1).row), digits, f"  {file.line(at + 1)}") for at in range(first, last)
                )
                continue
            for at in range(first, last):
                yield _line(str(file.place(at + 1).row), digits, f"- {file.line(at + 1)}", "removed")
            for at in range(start, end):
                yield _line("", digits, f"+ {new[at]}", "added")


def _line(number: str, digits: int, text: str, style: str = "") -> Line:
    shown = text.expandtabs(4).rstrip()
    return line(
        Piece(f"     {number:>{digits}} " if shown else f"     {number:>{digits}}", "gutter"), Piece(shown, style)
    )
