"""A notebook as one Python module over its code cells, written back with only the changed cells' source replaced."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import Any

from accumlint.source.json_spans import (
    JsonSpan,
    element_spans,
    escapes_non_ascii,
    member_spans,
    root_span,
)
from accumlint.source.magics import Masks, blank
from accumlint.source.text import (
    UTF8_BOM,
    Location,
    SourceError,
    SourceText,
    encoded,
    read_file,
    split_lines,
)

_MARKER = "# %% {name} {number}"


class NotPythonError(SourceError):
    """The notebook runs another language: nothing is wrong with it, it is only to be skipped."""


@dataclass(frozen=True, slots=True)
class Cell:
    """A code cell. `number` counts all cells from 1, as ruff does; `source` is the user's, `masked` the module's."""

    number: int
    source: str
    masked: str
    whole: bool  # masked whole: not to be edited
    span: JsonSpan  # of the value of "source" in the JSON text


@dataclass(frozen=True)
class NotebookText(SourceText):
    """A notebook with the interface of `SourceText`.

    `text` holds, for every code cell, a marker line (a comment) and the cell with its magics masked. The markers say
    where an edited text's cells begin, so that `encode` needs no guess at a cell's edge.
    """

    cells: tuple[Cell, ...] = ()
    marker: str = ""
    masks: Masks = field(default_factory=lambda: Masks("-"), compare=False)

    @classmethod
    def from_bytes(cls, filename: str, data: bytes) -> NotebookText:
        """Read a notebook of format 4. Raises SourceError if it is none, NotPythonError if its kernel is another's."""
        document, bom = _decode(data)
        content = _parse(document)
        _check_language(content.get("metadata"))
        sources = _sources(document, content["cells"])
        everything = "".join(source for _, source, _, _ in sources)
        masks, marker = Masks(_unused(everything, "accumlint-magic")), _unused(everything, "accumlint-cell")
        cells = tuple(_read_cell(masks, *source) for source in sources)
        text = "".join(f"{_MARKER.format(name=marker, number=cell.number)}\n{cell.masked}\n" for cell in cells)
        return cls(filename, data, text, "utf-8", bom, cells, marker, masks)

    @property
    def searchable(self) -> bytes:
        """The code alone: the bytes of the file are those of its JSON."""
        return self.text.encode("utf-8", "replace")

    def encode(self, new_text: str) -> bytes:
        """The notebook with the changed cells replaced; every other byte is the old one.

        Raises SourceError for an edit of a magic, of a cell that is not Python, or across the edge of a cell.
        """
        document = self.data[len(self.bom) :].decode("utf-8")
        pieces, at = [], 0
        for cell, segment in zip(self.cells, self._split(new_text), strict=True):
            if segment == cell.masked + "\n":
                continue
            source = self._edited_source(cell, segment)
            pieces += [document[at : cell.span.start], _render(document, cell, source, self.cells)]
            at = cell.span.end
        return self.bom + ("".join(pieces) + document[at:]).encode("utf-8") if pieces else self.data

    def edited_cells(self, new_text: str) -> dict[int, str]:
        """The new source of each changed cell by its number, for editors that hold the cells themselves."""
        segments = zip(self.cells, self._split(new_text), strict=True)
        return {c.number: self._edited_source(c, segment) for c, segment in segments if segment != c.masked + "\n"}

    @cached_property
    def display_lines(self) -> list[str]:
        """The lines with the magics as the user wrote them; marker lines are empty."""
        lines: list[str] = []
        for cell in self.cells:
            own = split_lines((cell.source if cell.whole else cell.masked) + "\n")
            lines += ["", *(own if cell.whole else map(self.masks.display, own))]
        return lines

    def locate(self, line: int) -> Location:
        """The cell (from 1, among all cells) and the line in it; a marker line is the first line of its cell."""
        for cell in reversed(self.cells):
            start = self._first_lines[cell.number]
            if line >= start - 1:
                return Location(cell.number, max(1, line - start + 1))
        return Location(None, line)

    def line_of(self, location: Location) -> int:
        """The line of `text` of a line in a cell: the inverse of `locate`. Raises KeyError for a cell with no code."""
        if location.cell is None:
            return location.line
        return self._first_lines[location.cell] + location.line - 1

    @cached_property
    def _first_lines(self) -> dict[int, int]:
        first, lines = {}, 1
        for cell in self.cells:
            first[cell.number] = lines + 1
            lines += 1 + len(split_lines(cell.masked + "\n"))
        return first

    def _split(self, new_text: str) -> list[str]:
        """The segments of an edited text between the markers, which must all be there and in order."""
        found = re.split(rf"(?m)^# %% {re.escape(self.marker)} (\d+)(?:\r\n|\n|\r)", new_text)
        if found[0].strip() or list(map(int, found[1::2])) != [cell.number for cell in self.cells]:
            raise SourceError("the edit goes beyond one cell of the notebook")
        return found[2::2]

    def _edited_source(self, cell: Cell, segment: str) -> str:
        if cell.whole:
            raise SourceError(f"cell {cell.number} is not Python and cannot be edited", self._first_lines[cell.number])
        if self.masks.numbers(segment) != self.masks.numbers(cell.masked):
            raise SourceError(f"the edit removes a magic line of cell {cell.number}", self._first_lines[cell.number])
        # The last line end divides the segment from the next marker; it is not the cell's.
        divider = "\n" if cell.source.endswith("\r") or not segment.endswith("\r\n") else "\r\n"
        return self.masks.unmask(segment.removesuffix(divider))


def read_bytes(filename: str, data: bytes) -> SourceText:
    """Read a file by its name's suffix: a notebook or a Python file. Raises SourceError."""
    kind = NotebookText if _is_notebook(filename) else SourceText
    return kind.from_bytes(filename, data)


def read_text(filename: str, text: str) -> SourceText:
    """Read what an editor or a caller holds as decoded text; its bytes are in the encoding that it declares.

    Raises SourceError.
    """
    return read_bytes(filename, text.encode("utf-8", "surrogatepass") if _is_notebook(filename) else encoded(text))


def read_path(path: str | Path) -> SourceText:
    """Read a file from disk by its name's suffix. Raises SourceError."""
    return read_bytes(str(path), read_file(path))


def _is_notebook(filename: str) -> bool:
    return filename.lower().endswith(".ipynb")


def _decode(data: bytes) -> tuple[str, bytes]:
    bom = UTF8_BOM if data.startswith(UTF8_BOM) else b""
    try:
        return data[len(bom) :].decode("utf-8"), bom
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise SourceError("the notebook is not encoded in UTF-8", line) from None


def _parse(document: str) -> dict[str, Any]:
    """The notebook's JSON, checked as far as this module relies on it."""
    try:
        content = json.loads(document)
    except json.JSONDecodeError as error:
        raise SourceError(f"the notebook is not JSON: {error.msg}", error.lineno, error.colno - 1) from None
    except (RecursionError, ValueError):
        raise SourceError("the notebook is JSON that is nested too deeply or holds too long a number", 1) from None
    if not isinstance(content, dict):
        raise SourceError("this JSON is no notebook: it is not an object", 1)
    if "worksheets" in content:
        raise SourceError("notebooks of format 3 are not read; `jupyter nbconvert --to notebook` upgrades them", 1)
    cells = content.get("cells")
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise SourceError("this JSON is no notebook: it has no list of cells", 1)
    return content


def _check_language(metadata: object) -> None:
    """Refuse another language; a notebook that does not say is Python's, as most that do not say are."""
    for section, key in (("language_info", "name"), ("kernelspec", "language")):
        language = _get(_get(metadata, section), key)
        if isinstance(language, str) and language:
            if language.lower() not in ("python", "ipython"):
                raise NotPythonError(f"the notebook is written in {language}, not in Python", 1)
            return


def _get(value: object, key: str) -> object:
    return value.get(key) if isinstance(value, Mapping) else None


def _sources(document: str, cells: Sequence[dict[str, Any]]) -> list[tuple[int, str, bool, JsonSpan]]:
    """Of each code cell: number, source, whether it is in another language, span of the source."""
    spans = element_spans(document, member_spans(document, root_span(document))["cells"])
    found = []
    for number, cell, span in zip(count(1), cells, spans, strict=False):
        if cell.get("cell_type") != "code":
            continue
        text = _joined(cell.get("source"))
        if text is None:
            raise SourceError(f"cell {number} of the notebook has no source", document.count("\n", 0, span.start) + 1)
        language = _get(_get(cell.get("metadata"), "vscode"), "languageId")
        foreign = isinstance(language, str) and language != "python"
        found.append((number, text, foreign or not _is_text(text), member_spans(document, span)["source"]))
    return found


def _joined(source: object) -> str | None:
    """A cell's source, which is a string or a list of strings."""
    if isinstance(source, list) and all(isinstance(item, str) for item in source):
        return "".join(source)
    return source if isinstance(source, str) else None


def _is_text(source: str) -> bool:
    """Escapes can spell what no Python file holds: null characters, half a surrogate pair."""
    return "\0" not in source and not any("\ud800" <= character <= "\udfff" for character in source)


def _read_cell(masks: Masks, number: int, source: str, foreign: bool, span: JsonSpan) -> Cell:
    if foreign:
        return Cell(number, source, blank(source), True, span)
    masked = masks.mask_cell(source)
    return Cell(number, source, masked.source, masked.whole, span)


def _unused(text: str, name: str) -> str:
    while name in text:
        name += "_"
    return name


def _render(document: str, cell: Cell, source: str, cells: Sequence[Cell]) -> str:
    """The JSON of a cell's new source in the form and layout of the old one; unchanged lines keep their spelling."""
    ensure_ascii = escapes_non_ascii(document)
    if document[cell.span.start] == '"':
        return json.dumps(source, ensure_ascii=ensure_ascii)
    elements = element_spans(document, cell.span)
    spelled = {json.loads(raw): raw for raw in (document[e.start : e.end] for e in elements)}
    lines = [line for line in re.split(r"(?<=\n)", source) if line]
    rendered = [spelled.get(line) or json.dumps(line, ensure_ascii=ensure_ascii) for line in lines]
    opening, divider, closing = _layout(document, cell, cells)
    return f"[{opening}{divider.join(rendered)}{closing}]" if rendered else "[]"


def _layout(document: str, cell: Cell, cells: Sequence[Cell]) -> tuple[str, str, str]:
    """What stands before the first, between and after the last element; from another cell if this one cannot say."""
    best = ("", ", " if re.search(r'"source": ', document) else ",", "")
    for other in (cell, *cells):
        elements = element_spans(document, other.span) if document[other.span.start] == "[" else []
        if not elements:
            continue
        opening = document[other.span.start + 1 : elements[0].start]
        closing = document[elements[-1].end : other.span.end - 1]
        if len(elements) > 1:
            return opening, document[elements[0].end : elements[1].start], closing
        best = (opening, "," + opening if opening else best[1], closing)
        if opening:
            return best
    return best
