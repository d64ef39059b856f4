"""Which repairs are applied, and the text that comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from accumlint.cli.settings import Settings
from accumlint.findings import Edit, Finding, Fix
from accumlint.reading.program import Span
from accumlint.repair.certificate import Applicability, Certificate, Check
from accumlint.report.edited import edited
from accumlint.report.model import UNUSED_SUPPRESSION, CheckedFile


def established(certificate: Certificate, requirement: str) -> bool:
    """Whether the repair meets `--require`; `leaf-checked` is all of proved, executed and leaf-checked."""
    if certificate.applicability is Applicability.DISPLAY or Check.PROVED not in certificate.discharged:
        return False
    if requirement == "proved":
        return True
    needed = {Check.EXECUTED, Check.ON_RANKS} if certificate.needs_ranks else {Check.EXECUTED}
    if not needed <= certificate.discharged:
        return False
    leaf = not certificate.needs_leaf or Check.LEAF_CHECKED in certificate.discharged
    return requirement == "executed" or leaf


def is_wanted(file: CheckedFile, finding: Finding, settings: Settings) -> bool:
    """Whether the user asked for the repair of this finding. What is only for display is never applied."""
    applicability = file.applicability(finding)
    if finding.fix is None or applicability is None or applicability is Applicability.DISPLAY:
        return False
    if settings.require is not None:
        demoted = finding.code in settings.unsafe_codes and not settings.unsafe_fixes
        return established(finding.fix.certificate, settings.require) and not demoted
    return applicability is Applicability.SAFE or settings.unsafe_fixes


class Protects(Protocol):
    """Says which edits must not be made."""

    def forbids(self, edit: Edit) -> bool: ...


def wanted_fixes(file: CheckedFile, settings: Settings, protection: Protects) -> list[Fix]:
    """The repairs to apply now, each once: none that overlaps an earlier one, none that rewrites a protected line.

    A repair that several findings share is applied if all of them, as far as they are reported, want it.
    """
    by_identity: dict[int, Fix] = {}
    comments: set[int] = set()  # repairs of suppressions themselves
    refused: set[int] = set()
    for finding in file.findings:
        if finding.fix is not None:
            by_identity[id(finding.fix)] = finding.fix
            if finding.code == UNUSED_SUPPRESSION:
                comments.add(id(finding.fix))
            if not is_wanted(file, finding, settings):
                refused.add(id(finding.fix))
    candidates = [fix for key, fix in by_identity.items() if key not in refused and fix.edits]
    chosen: list[Fix] = []
    for fix in sorted(candidates, key=lambda fix: fix.edits[0].span):
        forbidden = id(fix) not in comments and any(protection.forbids(edit) for edit in fix.edits)
        if forbidden or any(overlap(fix, other) for other in chosen):
            continue
        chosen.append(fix)
    return chosen


def touched(edit: Edit) -> set[int]:
    """The lines whose own text an edit changes."""
    span = edit.span
    if (span.line, span.column) == (span.end_line, span.end_column):
        return set() if span.column == 0 and edit.content.endswith(("\n", "\r")) else {span.line}
    last = span.end_line if span.end_column > 0 else span.end_line - 1
    return set(range(span.line, last + 1))


def overlap(fix: Fix, other: Fix) -> bool:
    """Whether two repairs touch; two insertions at one place do as well, as their order would be arbitrary."""
    return any(_meets(one.span, two.span) for one in fix.edits for two in other.edits)


def _meets(one: Span, two: Span) -> bool:
    one_start, one_end = (one.line, one.column), (one.end_line, one.end_column)
    two_start, two_end = (two.line, two.column), (two.end_line, two.end_column)
    return one_start == two_start or (one_start < two_end and two_start < one_end)


def apply(text: str, fixes: Iterable[Fix]) -> str:
    """The text with all edits made; they must be disjoint."""
    return edited(text, (edit for fix in fixes for edit in fix.edits))
