"""Bytes in, bytes out: a Python file as text, and the way back that changes no byte that was not meant to change."""

from __future__ import annotations

import codecs
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

UTF8_BOM = codecs.BOM_UTF8

# UTF-32 first: its little-endian mark begins with that of UTF-16.
_FOREIGN_MARKS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)
_LINE_END = re.compile(r"\r\n|\r|\n")
_BYTE_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|\Z)")
_PROBE = b"# coding: \r\n"
_NOT_ASCII = re.compile(rb"[\x80-\xff]")


class SourceError(Exception):
    """Input that cannot be read or written back. `message` is one line.

    `line` counts from 1 (0: not about a line), `column` from 0 in code points.
    """

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


@dataclass(frozen=True, slots=True)
class Location:
    """Where a line of `SourceText.lines` stands for the reader. `cell` is None in a plain file, else counts from 1."""

    cell: int | None
    line: int


@dataclass(frozen=True)
class SourceText:
    """A Python file: the bytes as read and the decoded text, its line ends exactly as they are in the file.

    `text` has no byte order mark; `bom` keeps it. `encoding` is a codec name that decodes `data` after the mark.
    """

    filename: str
    data: bytes
    text: str
    encoding: str = "utf-8"
    bom: bytes = b""

    @classmethod
    def from_bytes(cls, filename: str, data: bytes) -> SourceText:
        """Decode as Python does. Raises SourceError, with a line, for UTF-16/32, null bytes, bad cookies and bytes."""
        _refuse_foreign(data)
        bom = UTF8_BOM if data.startswith(UTF8_BOM) else b""
        encoding = _find_encoding(data)
        return cls(filename, data, _decode(data[len(bom) :], encoding), encoding, bom)

    @classmethod
    def from_path(cls, path: str | Path) -> SourceText:
        """Read and decode a file. Raises SourceError also for a file that cannot be read."""
        return cls.from_bytes(str(path), read_file(path))

    def encode(self, new_text: str) -> bytes:
        """Encode a changed text as the file was: mark and encoding; line ends are those of `new_text`.

        The unchanged text gives `data` back. Raises SourceError for a character that the encoding cannot hold.
        """
        if new_text == self.text:
            return self.data
        try:
            # Codecs with more than one spelling (utf-7, iso-2022) would silently respell lines that nobody touched.
            if self.bom + self.text.encode(self.encoding) != self.data:
                raise SourceError(
                    f"the encoding {self.encoding} does not round-trip in this file; it is not rewritten", 1
                )
            return self.bom + new_text.encode(self.encoding)
        except UnicodeEncodeError as error:
            line, column = _place(new_text, error.start)
            character = f"U+{ord(new_text[error.start]):04X}"
            message = f"{character} cannot be written in the file's encoding {self.encoding}"
            raise SourceError(message, line, column) from None

    @property
    def searchable(self) -> bytes:
        """The text as bytes in which ASCII words can be searched for."""
        return self.data if self.encoding == "utf-8" else self.text.encode("utf-8", "replace")

    @cached_property
    def lines(self) -> list[str]:
        """The lines without their ends, numbered as Python's tokenizer numbers them."""
        return split_lines(self.text)

    @cached_property
    def display_lines(self) -> list[str]:
        """The lines as the user wrote them: those of a notebook before masking."""
        return self.lines

    @cached_property
    def newline(self) -> str:
        """The line end that most lines have; "\\n" where there is none. New lines should end so."""
        ends = Counter(_LINE_END.findall(self.text))
        return max(ends, key=lambda end: (ends[end], end == "\n")) if ends else "\n"

    def locate(self, line: int) -> Location:
        """Where a line of `text` stands in the file (a notebook answers with a cell)."""
        return Location(None, line)


def split_lines(text: str) -> list[str]:
    """Split at LF, CR and CRLF only (form feed and U+2028 end no line in Python); a last empty line is no line."""
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if not lines[-1]:
        lines.pop()
    return lines


def split_keeping_ends(text: str) -> list[str]:
    """Like `split_lines`, each line with its own end: joined they are `text`."""
    starts = [0, *(match.end() for match in _LINE_END.finditer(text))]
    pieces = [text[start:end] for start, end in zip(starts, [*starts[1:], len(text)], strict=True)]
    return pieces if pieces[-1] else pieces[:-1]


def encoded(text: str) -> bytes:
    """Decoded text as bytes, in the encoding that its cookie names; where that cannot be, in UTF-8."""
    data = text.encode("utf-8", "surrogatepass")
    try:
        encoding = _find_encoding(data)
        return data if encoding == "utf-8" else text.encode(encoding)
    except (SourceError, UnicodeError, LookupError):
        return data  # reading the bytes says what is wrong with them


def read_file(path: str | Path) -> bytes:
    """Read a file whole. Raises SourceError with a one-line message where the system refuses."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as error:
        raise SourceError(f"cannot be read: {error.strerror or error}") from None


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line (from 1) and column (from 0) of an offset."""
    ends = [match.end() for match in _LINE_END.finditer(text, 0, offset)]
    return len(ends) + 1, offset - (ends[-1] if ends else 0)


def _refuse_foreign(data: bytes) -> None:
    for mark, name in _FOREIGN_MARKS:
        if data.startswith(mark):
            raise SourceError(f"the file is encoded in {name}, which is no encoding of Python source", 1)
    null = data.find(b"\0")
    if null >= 0:
        line, column = _place(data[:null].decode("latin-1"), null)
        raise SourceError("the file holds a null byte, so it is no Python source", line, column)


def _find_encoding(data: bytes) -> str:
    """The codec that the cookie or the mark names, UTF-8 without one."""
    try:
        encoding, _ = tokenize.detect_encoding(_head_lines(data).__next__)
    except SyntaxError as error:
        line = 2 if _cookie_is_second(data) else 1
        raise SourceError(f"the file's encoding cannot be used: {error.msg}", line) from None
    return "utf-8" if encoding == "utf-8-sig" else encoding


def _head_lines(data: bytes) -> Iterator[bytes]:
    """The first two lines for `detect_encoding`, which knows no CR and wants UTF-8 before it has seen the cookie."""
    mark = len(UTF8_BOM) if data.startswith(UTF8_BOM) else 0
    first = _BYTE_LINE.match(data, mark)
    end = first.end() if first else mark
    second = _BYTE_LINE.match(data, end)
    for start, line in ((0, data[mark:end]), (end, second.group() if second else b"")):
        head = data[:mark] if start == 0 else b""
        yield head + _NOT_ASCII.sub(b"?", line.rstrip(b"\r\n")) + b"\n"


def _cookie_is_second(data: bytes) -> bool:
    first = next(_head_lines(data))
    return b"coding" not in first


def _decode(body: bytes, encoding: str) -> str:
    try:
        # hex, rot13 and zip are codecs of no text; utf-16 and EBCDIC cannot have held the cookie that names them.
        if _PROBE.decode(encoding) != _PROBE.decode("ascii"):
            raise LookupError
        return body.decode(encoding)
    except UnicodeDecodeError as error:
        line, column = _place(body[: error.start].decode("latin-1"), error.start)
        value = body[error.start] if error.start < len(body) else 0
        raise SourceError(f"byte 0x{value:02x} is not valid {encoding}", line, column) from None
    except (LookupError, ValueError):
        raise SourceError(f"{encoding} is no encoding of Python source", 1) from None
