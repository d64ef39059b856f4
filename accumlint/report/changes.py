"""What a repair changes, below its finding: the lines before and after, with a line of context."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from difflib import SequenceMatcher

from accumlint.findings import Edit, Fix
from accumlint.report.edited import edited
from accumlint.report.model import CheckedFile
from accumlint.report.styled import Line, Piece, line
from accumlint.source.text import split_lines

CONTEXT = 1


def changes(file: CheckedFile, fix: Fix) -> Iterator[Line]:
    """Removed lines with their numbers, added ones without; `...` where lines are left out."""
    if file.source is None or not fix.edits:
        return
    above, old, new = _around(file.source.lines, fix.edits)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    groups = list(matcher.get_grouped_opcodes(CONTEXT))
    digits = max((len(str(file.place(above + group[-1][2]).row)) for group in groups), default=1)
    for number, group in enumerate(groups):
        if number:
            yield _line("", digits, "...", "gutter")
        for tag, first, last, start, end in group:
            if tag == "equal":
                for at in range(above + first + 1, above + last + 1):
                    yield _line(str(file.place(at).row), digits, f"  {file.line(at)}")
                continue
            for at in range(above + first + 1, above + last + 1):
                yield _line(str(file.place(at).row), digits, f"- {file.line(at)}", "removed")
            for at in range(start, end):
                yield _line("", digits, f"+ {new[at]}", "added")


def _around(lines: list[str], edits: Sequence[Edit]) -> tuple[int, list[str], list[str]]:
    """How many lines stand above, and the lines around the edits, before and after: whole files are slow to compare."""
    above = max(min(edit.span.line for edit in edits) - 1 - CONTEXT, 0)
    old = lines[above : max(edit.span.end_line for edit in edits) + CONTEXT]
    moved = [
        replace(edit, span=replace(edit.span, line=edit.span.line - above, end_line=edit.span.end_line - above))
        for edit in edits
    ]
    text = "\n".join(old) + "\n"  # each line has its end: an empty last one would be none
    return above, old, split_lines(edited(text, moved))


def _line(number: str, digits: int, text: str, style: str = "") -> Line:
    shown = text.expandtabs(4).rstrip()
    return line(
        Piece(f"     {number:>{digits}} " if shown else f"     {number:>{digits}}", "gutter"), Piece(shown, style)
    )
