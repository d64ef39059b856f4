"""What a run comes back as: the files that were checked, what is left of their findings, and where these stand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from accumlint.findings import Finding, Loop, LoopStatus, Problem
from accumlint.reading.program import Span
from accumlint.repair.certificate import Applicability
from accumlint.source.comments import Comments
from accumlint.source.text import SourceText

DOCUMENTATION = "https://accumlint.readthedocs.io"
UNUSED_SUPPRESSION = "ACC901"


class Place(NamedTuple):
    """Where a reader finds something: line and column from 1; in a notebook the cell, and the line in the cell."""

    cell: int | None
    row: int
    column: int


@dataclass(frozen=True, slots=True)
class Trust:
    """What the configuration says about repairs: codes whose unsafe ones count as safe, and the other way round."""

    safe: frozenset[str] = frozenset()
    unsafe: frozenset[str] = frozenset()

    def applicability(self, finding: Finding) -> Applicability | None:
        """How the repair of a finding counts; None without one. One that is only for display stays that."""
        if finding.fix is None:
            return None
        certified = finding.fix.certificate.applicability
        if finding.code == UNUSED_SUPPRESSION:  # only a comment changes, so there is nothing to prove
            certified = Applicability.SAFE
        if finding.code in self.safe and certified is Applicability.UNSAFE:
            certified = Applicability.SAFE
        if finding.code in self.unsafe and certified is Applicability.SAFE:
            certified = Applicability.UNSAFE
        return certified


@dataclass(slots=True)
class CheckedFile:
    """One file after selection, suppression and baseline. `filename` is what is shown, relative where possible."""

    filename: str
    source: SourceText | None = None  # None where it could not be read
    findings: list[Finding] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    suppressed: int = 0
    baselined: int = 0
    fixed: Counter[str] = field(default_factory=Counter)  # findings that a repair removed, by code
    noqa_added: int = 0  # findings that --add-noqa has suppressed
    trust: Trust = Trust()
    _comments: Comments | None = field(default=None, repr=False, compare=False)

    def applicability(self, finding: Finding) -> Applicability | None:
        return self.trust.applicability(finding)

    def place(self, line: int, column: int = 0) -> Place:
        """The place of a position of the text (line from 1, column from 0)."""
        if self.source is None:
            return Place(None, line, column + 1)
        location = self.source.locate(line)
        return Place(location.cell, location.line, column + 1)

    def end(self, span: Span) -> Place:
        """The end of a span, exclusive."""
        return self.place(span.end_line, span.end_column)

    @property
    def is_notebook(self) -> bool:
        return self.place(1).cell is not None

    def noqa_line(self, line: int) -> int:
        """Where a noqa for a finding has to stand: a line that goes on in a string takes it at its end."""
        if self.source is None:
            return line
        if self._comments is None:
            self._comments = Comments(self.source.text)
        return self._comments.joined_lines(line)[1]

    def line(self, line: int) -> str:
        """A line as the user wrote it, without its end; empty where there is none."""
        lines = self.source.display_lines if self.source else []
        return lines[line - 1] if 0 < line <= len(lines) else ""


@dataclass(slots=True)
class Run:
    """Everything that a report prints. `files` holds every file that was looked at, in the order of the paths."""

    files: list[CheckedFile] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)  # of no file: a path that does not exist, a pattern

    def findings(self) -> Iterator[tuple[CheckedFile, Finding]]:
        for file in self.files:
            for finding in file.findings:
                yield file, finding

    def all_problems(self) -> Iterator[Problem]:
        yield from self.problems
        for file in self.files:
            yield from file.problems

    def count(self) -> int:
        return sum(len(file.findings) for file in self.files)

    def loops(self, status: LoopStatus) -> int:
        return sum(loop.status is status for file in self.files for loop in file.loops)


def rule_url(code: str) -> str:
    """The page of a rule."""
    return f"{DOCUMENTATION}/en/stable/rules/{code}/"


def plural(number: int, word: str, many: str = "") -> str:
    """`1 file`, `2 files`."""
    return f"{number} {word if number == 1 else many or word + 's'}"
