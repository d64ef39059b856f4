"""Columns in the unit that client and server agreed on, and edits as the protocol has them."""

from __future__ import annotations

from lsprotocol import types

from accumlint.reading.program import Span
from accumlint.report.model import CheckedFile
from accumlint.server.documents import Snapshot
from accumlint.server.jobs import Change
from accumlint.source.positions import Positions

_BYTES = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2)}


def units(text: str, encoding: str | None) -> int:
    """The length of a piece of a line in the unit of `encoding`, which is UTF-16 if none was agreed on."""
    if encoding == "utf-32":
        return len(text)
    codec, size = _BYTES.get(str(encoding), _BYTES["utf-16"])
    return len(text.encode(codec, "surrogatepass")) // size


def column(text: str, character: int, encoding: str | None) -> int:
    """The column in code points of one in units: inside a character is before it, past the end is the end."""
    for index, each in enumerate(text):
        character -= units(each, encoding)
        if character < 0:
            return index
    return len(text)


def location(file: CheckedFile, span: Span, snapshot: Snapshot, encoding: str | None) -> types.Location:
    """Where a span stands in the editor: in a document, or in a cell of a notebook."""
    start = _position(file, span.line, span.column, encoding)
    cell = file.place(span.line).cell
    end = start
    if file.place(span.end_line).cell == cell:
        end = _position(file, span.end_line, span.end_column, encoding)
    return types.Location(snapshot.uri_of(cell), types.Range(start, end))


def _position(file: CheckedFile, line: int, column: int, encoding: str | None) -> types.Position:
    row = file.place(line).row
    return types.Position(row - 1, units(file.line(line)[:column], encoding))


def text_edit(change: Change, lines: list[str], encoding: str | None) -> types.TextEdit:
    """A change of whole lines. The last line may have no end, which is where the change then ends."""
    return types.TextEdit(
        types.Range(_start(change.first, lines, encoding), _start(change.last, lines, encoding)), change.content
    )


def _start(line: int, lines: list[str], encoding: str | None) -> types.Position:
    if line < len(lines):
        return types.Position(line, 0)
    return types.Position(len(lines) - 1, units(lines[-1], encoding))


def lines_of(text: str) -> list[str]:
    """The lines that a position can be on, without their ends: there is one more after a final line end."""
    positions = Positions(text)
    return [positions.line(line) for line in range(1, positions.line_count + 1)]
