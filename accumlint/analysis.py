"""The pipeline: source -> regions -> traces -> violations -> findings (-> repairs). The faces call only this."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accumlint.findings import FileReport

if TYPE_CHECKING:
    from accumlint.source.text import SourceText


@dataclass(frozen=True, slots=True)
class Options:
    """What the pipeline needs to know; selection, suppression and output are the faces' business.

    `codes` are the rules to evaluate (None: all default-on ones). `repair` plans repairs and proves them; `confirm`
    also executes them with torch in a subprocess, if torch is there.
    """

    codes: frozenset[str] | None = None
    repair: bool = False
    confirm: bool = False
    strategy: str = "deferred"


def check_source(source: SourceText, options: Options | None = None) -> FileReport:
    """Check one file or notebook. Never raises for bad input: `FileReport.problems` says what was wrong."""
    return FileReport(source.filename)
