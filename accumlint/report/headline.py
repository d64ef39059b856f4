"""`path:line:column: CODE message`, the line that every text format begins with."""

from __future__ import annotations

from accumlint.findings import Finding
from accumlint.repair.certificate import Applicability
from accumlint.report.model import CheckedFile, Place
from accumlint.report.styled import Line, Piece, line


def where(filename: str, place: Place) -> str:
    """`train.py:21:9`; in a notebook `train.ipynb:cell 3:12:5`."""
    cell = "" if place.cell is None else f"cell {place.cell}:"
    return f"{filename}:{cell}{place.row}:{place.column}"


def headline(file: CheckedFile, finding: Finding) -> Line:
    place = file.place(finding.span.line, finding.span.column)
    return line(Piece(where(file.filename, place), "path"), ": ", *subject(file, finding))


def subject(file: CheckedFile, finding: Finding) -> Line:
    """`CODE [*] message`; the star says that `--fix` applies the repair."""
    safe = file.applicability(finding) is Applicability.SAFE
    star = (Piece("[*]", "safe"), Piece(" ")) if safe else ()
    return line(Piece(finding.code, "code"), " ", *star, finding.message)
