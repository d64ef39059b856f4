"""A unified diff of a repair; of a notebook, one for each changed cell."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from accumlint.source.notebook import NotebookText
from accumlint.source.text import SourceText, split_keeping_ends

NO_END = "\n\\ No newline at end of file\n"


def unified_diff(old: SourceText, new: SourceText, shown: str) -> bytes:
    """In the encoding of the file, with its line ends, so that `patch` can apply it to a plain file."""
    if isinstance(old, NotebookText):
        sources = {cell.number: cell.source for cell in old.cells}
        edited = old.edited_cells(new.text).items()
        pieces = [_diff(sources[number], text, f"{shown}:cell {number}") for number, text in edited]
    else:
        pieces = [_diff(old.text, new.text, shown)]
    return "".join(pieces).encode(old.encoding, "backslashreplace")


def _diff(old: str, new: str, shown: str) -> str:
    return "".join(_lines(split_keeping_ends(old), split_keeping_ends(new), shown))


def _lines(old: list[str], new: list[str], shown: str) -> Iterator[str]:
    for line in difflib.unified_diff(old, new, shown, shown):
        yield line if line.endswith(("\n", "\r")) else line + NO_END
