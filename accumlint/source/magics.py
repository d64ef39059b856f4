"""Find the lines of a notebook cell that are IPython's and not Python's, and mask them.

A masked line becomes a Python statement of one line that carries a number, by which the original comes back.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from accumlint.source.text import SourceError, split_keeping_ends

# Cell magics whose body runs as Python in the notebook's own namespace: only their first line is masked.
PYTHON_CELL_MAGICS = frozenset({"capture", "debug", "ipytest", "prun", "time", "timeit"})

_CELL_MAGIC = re.compile(r"\s*%%(\w+)")
_LINE_ESCAPE = re.compile(r"[ \t\f]*[%!?,;/]")
_ASSIGNED_ESCAPE = re.compile(r"[ \t\f]*(?:[\w.,* \t]|\[[^\[\]=]*\])+?=[ \t]*[%!](?!=)")
_HELP = re.compile(r"[ \t\f]*%{0,2}(?!\d)[\w*.\[\]'\"]+\?{1,2}[ \t;]*(?:#.*)?$")
_TOKEN = re.compile(r"[()\[\]{}#\\]|\"\"\"|'''|\"|'")
_CLOSING = {quote: re.compile(rf"(?:\\.|[^\\])*?{quote}") for quote in ('"""', "'''", '"', "'")}


class Kind(Enum):
    """What a physical line of a cell is."""

    PYTHON = "python"
    MAGIC = "magic"
    CONTINUATION = "the line after a magic that ends in a backslash"


@dataclass(frozen=True, slots=True)
class Masked:
    """A cell after masking. `source` has as many lines as the original; `whole` cells may not be edited at all."""

    source: str
    whole: bool


class Masks:
    """The masked lines of one notebook and their originals."""

    def __init__(self, name: str) -> None:
        """`name` must occur nowhere in the notebook; it marks the masks."""
        self._name = name
        self._originals: list[str] = []
        self._codes: list[str] = []
        self._mark = re.compile(rf"# {re.escape(name)} (\d+)")
        self._line = re.compile(rf"([ \t\f]*)(|[^ \t\f].*? +)# {re.escape(name)} (\d+)")

    def mask_cell(self, source: str) -> Masked:
        """Mask a cell: its magics, or all of it where it is not Python."""
        magic = _CELL_MAGIC.match(source)
        if magic and magic.group(1) not in PYTHON_CELL_MAGICS:
            return Masked(blank(source), whole=True)
        lines = [line if kind is Kind.PYTHON else self._mask_line(line, kind) for line, kind in classify_lines(source)]
        return Masked("".join(lines), whole=False)

    def unmask(self, source: str) -> str:
        """Put the originals back into an edited cell. Raises SourceError if a masked line was changed."""
        return "".join(self._unmask_line(line) for line in split_keeping_ends(source))

    def display(self, line: str) -> str:
        """The original of a masked line (without line end), any other line as it is."""
        match = self._line.fullmatch(line)
        return match.group(1) + self._originals[int(match.group(3))] if match else line

    def numbers(self, source: str) -> list[int]:
        """The numbers of the masks in a cell, in order."""
        return [int(number) for number in self._mark.findall(source)]

    def _mask_line(self, line: str, kind: Kind) -> str:
        body = line.rstrip("\r\n")
        indentation = body[: len(body) - len(body.lstrip(" \t\f"))]
        assigned = _ASSIGNED_ESCAPE.match(body) if kind is Kind.MAGIC else None
        if assigned:
            # An assigned magic yields an unknown value, which is what a call of an unknown name is to a reader.
            code = body[len(indentation) : assigned.end() - 1] + "get_ipython()  "
        else:
            # A comment may be indented as it likes, which the second line of a shell command is.
            code = "pass  " if kind is Kind.MAGIC else ""
        number = len(self._originals)
        self._originals.append(body[len(indentation) :])
        self._codes.append(code)
        return f"{indentation}{code}# {self._name} {number}{line[len(body) :]}"

    def _unmask_line(self, line: str) -> str:
        body = line.rstrip("\r\n")
        if self._name not in body:
            return line
        match = self._line.fullmatch(body)
        if not match or match.group(2) != self._codes[int(match.group(3))]:
            raise SourceError("the edit changes a magic line of the notebook")
        return match.group(1) + self._originals[int(match.group(3))] + line[len(body) :]


def blank(source: str) -> str:
    """The line ends of a text alone: as many lines, nothing on them."""
    return re.sub(r"[^\r\n]+", "", source)


def classify_lines(source: str) -> Iterator[tuple[str, Kind]]:
    """The physical lines of a cell, each with whose language it is in.

    Only the start of a logical line can be a magic: `%` in brackets or in a string is Python's.
    """
    state = _State()
    going_on = False
    for line in split_keeping_ends(source):
        body = line.rstrip("\r\n")
        if going_on:
            kind = Kind.CONTINUATION
        elif state.at_start and _is_magic(body):
            kind = Kind.MAGIC
        else:
            kind = Kind.PYTHON
            state.read(body)
        going_on = kind is not Kind.PYTHON and body.endswith("\\")
        yield line, kind


def _is_magic(body: str) -> bool:
    return bool(_LINE_ESCAPE.match(body) or _ASSIGNED_ESCAPE.match(body) or _HELP.match(body))


class _State:
    """Whether the next physical line begins a logical one: outside strings, brackets and continuations."""

    def __init__(self) -> None:
        self._depth = 0
        self._quote = ""
        self._continued = False

    @property
    def at_start(self) -> bool:
        return not (self._depth or self._quote or self._continued)

    def read(self, body: str) -> None:
        """Take in one physical line, without its end."""
        self._continued = False
        at = self._leave_string(body, 0) if self._quote else 0
        while at < len(body):
            token = _TOKEN.search(body, at)
            if not token or token.group() == "#":
                return
            at = self._take(token.group(), body, token.end())

    def _take(self, token: str, body: str, at: int) -> int:
        if token == "\\":
            self._continued = at == len(body)
        elif token in ")]}":
            self._depth = max(0, self._depth - 1)
        elif token in "([{":
            self._depth += 1
        else:
            self._quote = token
            return self._leave_string(body, at)
        return at

    def _leave_string(self, body: str, at: int) -> int:
        """Read on in a string; returns where it ends, or the end of the line."""
        closing = _CLOSING[self._quote].match(body, at)
        if closing:
            self._quote = ""
            return closing.end()
        # A string in single quotes goes on only after a backslash; otherwise it is an error that ends here.
        if len(self._quote) == 1 and not _ends_escaped(body):
            self._quote = ""
        return len(body)


def _ends_escaped(body: str) -> bool:
    return (len(body) - len(body.rstrip("\\"))) % 2 == 1
