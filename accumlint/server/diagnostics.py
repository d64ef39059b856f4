"""Findings and problems as the protocol's diagnostics."""

from __future__ import annotations

from collections.abc import Iterator

from lsprotocol import types

from accumlint.findings import Finding, Problem
from accumlint.reading.program import Span
from accumlint.report.full import underlined
from accumlint.report.model import UNUSED_SUPPRESSION, CheckedFile, rule_url
from accumlint.rules import registry
from accumlint.server.documents import Snapshot
from accumlint.server.positions import location

SOURCE = "accumlint"


def diagnostics(file: CheckedFile, snapshot: Snapshot, encoding: str | None) -> dict[str, list[types.Diagnostic]]:
    """The diagnostics of each text of the document, an empty list where there is none."""
    by_uri: dict[str, list[types.Diagnostic]] = {uri: [] for uri in snapshot.versions}
    if not by_uri:
        return {}  # a notebook without a code cell
    for finding in file.findings:
        place = location(file, underlined(file, finding.span), snapshot, encoding)
        by_uri[place.uri].append(_of_finding(file, finding, place, snapshot, encoding))
    for problem in file.problems:
        uri, shown = _of_problem(file, problem, snapshot, encoding)
        by_uri[uri].append(shown)
    return by_uri


def _of_finding(
    file: CheckedFile, finding: Finding, place: types.Location, snapshot: Snapshot, encoding: str | None
) -> types.Diagnostic:
    opt_in = registry.get_rule(finding.code).opt_in
    return types.Diagnostic(
        place.range,
        finding.message,
        severity=types.DiagnosticSeverity.Information if opt_in else types.DiagnosticSeverity.Warning,
        code=finding.code,
        code_description=types.CodeDescription(rule_url(finding.code)),
        source=SOURCE,
        tags=[types.DiagnosticTag.Unnecessary] if finding.code == UNUSED_SUPPRESSION else None,
        related_information=list(_related(file, finding, snapshot, encoding)) or None,
    )


def _related(
    file: CheckedFile, finding: Finding, snapshot: Snapshot, encoding: str | None
) -> Iterator[types.DiagnosticRelatedInformation]:
    for reason, span in finding.evidence:
        if span is not None:
            place = location(file, span, snapshot, encoding)
            yield types.DiagnosticRelatedInformation(place, f"counts differ because: {reason}")


def _of_problem(
    file: CheckedFile, problem: Problem, snapshot: Snapshot, encoding: str | None
) -> tuple[str, types.Diagnostic]:
    """A syntax error is for information only: editors have their own way of showing it. A fault of ours is an error."""
    uri, span = snapshot.uris[0], types.Range(types.Position(0, 0), types.Position(0, 0))
    if problem.line and file.source is not None:
        line = min(problem.line, len(file.source.lines) or 1)
        place = location(file, Span(line, problem.column, line, problem.column + 1), snapshot, encoding)
        uri, span = place.uri, place.range
    elif problem.line:
        at = types.Position(problem.line - 1, 0)
        span = types.Range(at, at)
    severity = types.DiagnosticSeverity.Error if problem.internal else types.DiagnosticSeverity.Information
    return uri, types.Diagnostic(span, f"not checked: {problem.message}", severity=severity, source=SOURCE)
