"""One block a file, the positions in a column."""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.report.headline import subject
from accumlint.report.model import Place, Run
from accumlint.report.styled import Line, Piece, line, plain


def render(run: Run) -> str:
    return plain(lines(run))


def lines(run: Run) -> Iterator[Line]:
    for file in run.files:
        if not file.findings:
            continue
        yield line(Piece(file.filename, "path"), ":")
        positions = [_position(file.place(finding.span.line, finding.span.column)) for finding in file.findings]
        column = max(map(len, positions))
        for position, finding in zip(positions, file.findings, strict=True):
            yield line("  ", Piece(position.ljust(column), "gutter"), "  ", *subject(file, finding))
        yield line()


def _position(place: Place) -> str:
    return f"{place.row}:{place.column}" if place.cell is None else f"cell {place.cell}:{place.row}:{place.column}"
