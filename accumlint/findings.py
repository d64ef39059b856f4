"""What a checked file comes back as: the only types that the faces (command line, flake8, editor) need to know."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from accumlint.reading.program import Span
from accumlint.repair.certificate import Certificate


@dataclass(frozen=True, slots=True)
class Edit:
    """Replace the source in `span` by `content`; the edits of one repair are disjoint and sorted."""

    span: Span
    content: str


@dataclass(frozen=True, slots=True)
class Fix:
    """The repair of a finding. All findings of one loop share one fix (the same object): it is applied once."""

    message: str  # "Weight the microbatches by their valid targets"
    edits: tuple[Edit, ...]
    certificate: Certificate
    strategy: str = "deferred"


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding, ready to be printed. `span` is what is underlined; its start is line and column."""

    code: str
    name: str
    message: str
    filename: str
    span: Span
    hint: str = ""
    level: str = "proved"
    evidence: tuple[tuple[str, Span | None], ...] = ()  # why counts differ, and where that was read
    assumptions: tuple[str, ...] = ()
    fix: Fix | None = None
    unfixable: str = ""  # why there is no fix, in one line
    numbers: dict[str, str] = field(default_factory=dict)  # the figures of the message, for JSON


class LoopStatus(Enum):
    ANALYSED = "analysed"
    NOT_REACHED = "not reached"


@dataclass(frozen=True, slots=True)
class Loop:
    """Every training loop of a file ends here as analysed or as not reached, with the reason."""

    span: Span
    status: LoopStatus
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Problem:
    """A file (or one region of it) that could not be checked: exit 2. `line` is 0 where it is not known."""

    filename: str
    message: str
    line: int = 0
    column: int = 0
    internal: bool = False  # a fault of the tool itself


@dataclass(slots=True)
class FileReport:
    """The result for one file."""

    filename: str
    findings: list[Finding] = field(default_factory=list)
    loops: list[Loop] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
