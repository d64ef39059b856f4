"""Text with style names, so that one rendering serves pipes and terminals; only a terminal needs rich."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from typing import NamedTuple, TextIO

from accumlint.picture.text import printable

STYLES: dict[str, str] = {
    "path": "bold",
    "code": "bold red",
    "gutter": "bold blue",
    "mark": "bold red",
    "help": "bold cyan",
    "safe": "bold green",
    "unsafe": "bold yellow",
    "added": "green",
    "removed": "red",
    "header": "bold",
}


class Piece(NamedTuple):
    """Some text in one style; the empty name is plain."""

    text: str
    style: str = ""


Line = tuple[Piece, ...]


def line(*pieces: Piece | str) -> Line:
    """A line; plain strings are plain pieces."""
    return tuple(piece if isinstance(piece, Piece) else Piece(piece) for piece in pieces)


def plain(lines: Iterable[Line]) -> str:
    """The lines without style, each with a line end; characters that would move a terminal's cursor are escaped."""
    return "".join("".join(printable(piece.text) for piece in one) + "\n" for one in lines)


def paint(lines: Iterable[Line], stream: TextIO) -> None:
    """Write the lines to a terminal, in colour."""
    from rich.console import Console
    from rich.text import Text

    console = Console(file=stream, highlight=False, soft_wrap=True, force_terminal=True, legacy_windows=False)
    for one in lines:
        console.print(Text.assemble(*((printable(text), STYLES.get(style, "")) for text, style in one)))


def width(text: str) -> int:
    """How many columns of a terminal the text takes."""
    return sum(_widths(text))


def _widths(text: str) -> Iterator[int]:
    for char in text:
        if unicodedata.combining(char):
            yield 0
        elif char.isprintable():
            yield 2 if unicodedata.east_asian_width(char) in "WF" else 1
        else:
            yield 4  # as `printable` writes it
