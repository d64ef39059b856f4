"""From offsets to lines and columns and back, in the three units that columns are counted in.

Columns are code points (this tool, the command line), UTF-8 bytes (`ast`) or UTF-16 units (editors). Lines from 1.
"""

from __future__ import annotations

import re
from bisect import bisect_right

_LINE_END = re.compile(r"\r\n|\r|\n")


class Positions:
    """The lines of one text, indexed once."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._starts = [0]
        self._ends: list[int] = []
        for match in _LINE_END.finditer(text):
            self._ends.append(match.start())
            self._starts.append(match.end())
        self._ends.append(len(text))

    @property
    def line_count(self) -> int:
        """Lines that an offset can be on: the empty one after a final line end counts."""
        return len(self._starts)

    def line(self, line: int) -> str:
        """The line without its end. Raises ValueError for a line that is not there."""
        self._check_line(line)
        return self._text[self._starts[line - 1] : self._ends[line - 1]]

    def offset(self, line: int, column: int) -> int:
        """Offset of a column in code points. Raises ValueError outside the line (its end may be pointed at)."""
        self._check_line(line)
        offset = self._starts[line - 1] + column
        limit = self._starts[line] if line < len(self._starts) else len(self._text)
        if column < 0 or offset > limit:
            raise ValueError(f"line {line} has no column {column}")
        return offset

    def position(self, offset: int) -> tuple[int, int]:
        """Line and column in code points. Raises ValueError outside the text."""
        if not 0 <= offset <= len(self._text):
            raise ValueError(f"offset {offset} is outside the text")
        line = bisect_right(self._starts, offset)
        return line, offset - self._starts[line - 1]

    def utf16_column(self, line: int, column: int) -> int:
        """The column in UTF-16 units of a column in code points."""
        return sum(1 + (character > "\uffff") for character in self.line(line)[:column])

    def column_from_utf16(self, line: int, units: int) -> int:
        """The column in code points of one in UTF-16 units: inside a pair is before it, past the end is the end."""
        text = self.line(line)
        for column, character in enumerate(text):
            units -= 1 + (character > "\uffff")
            if units < 0:
                return column
        return len(text)

    def utf8_column(self, line: int, column: int) -> int:
        """The column in UTF-8 bytes of a column in code points."""
        return len(self.line(line)[:column].encode("utf-8", "surrogatepass"))

    def column_from_utf8(self, line: int, count: int) -> int:
        """The column in code points of one in UTF-8 bytes, as `ast` gives it, by the same rule."""
        text = self.line(line)
        for column, character in enumerate(text):
            count -= len(character.encode("utf-8", "surrogatepass"))
            if count < 0:
                return column
        return len(text)

    def _check_line(self, line: int) -> None:
        if not 1 <= line <= len(self._starts):
            raise ValueError(f"there is no line {line}")
