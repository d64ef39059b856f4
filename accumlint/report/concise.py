"""One line a finding."""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.report.headline import headline
from accumlint.report.model import Run
from accumlint.report.styled import Line, plain


def render(run: Run) -> str:
    return plain(lines(run))


def lines(run: Run) -> Iterator[Line]:
    for file, finding in run.findings():
        yield headline(file, finding)
