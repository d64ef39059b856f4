"""What reading raises."""

from __future__ import annotations

TOO_DEEP = "nested too deeply"


class ReadError(Exception):
    """A text that cannot be read. `line` counts from 1, `column` from 0 in code points."""

    def __init__(self, message: str, line: int = 1, column: int = 0) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column
