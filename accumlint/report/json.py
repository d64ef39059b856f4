"""JSON in ruff's shape, with our certificate, evidence and numbers beside it."""

from __future__ import annotations

import json
from typing import Any

from accumlint.findings import Finding, Fix
from accumlint.repair.certificate import Certificate
from accumlint.report.model import CheckedFile, Place, Run, rule_url


def render(run: Run) -> str:
    """One array with one object a finding."""
    return json.dumps([diagnostic(file, finding) for file, finding in run.findings()], indent=2) + "\n"


def diagnostic(file: CheckedFile, finding: Finding) -> dict[str, Any]:
    """One finding. Rows and columns count from 1; in a notebook rows count within the cell."""
    start, end = file.place(finding.span.line, finding.span.column), file.end(finding.span)
    noqa_line = file.noqa_line(finding.span.line)
    return {
        "cell": start.cell,
        "code": finding.code,
        "name": finding.name,
        "message": finding.message,
        "hint": finding.hint,
        "filename": file.filename,
        "location": location(start),
        "end_location": location(end),
        "noqa_row": file.place(noqa_line).row,
        "url": rule_url(finding.code),
        "level": finding.level,
        "evidence": [evidence(file, reason, span) for reason, span in finding.evidence],
        "assumptions": list(finding.assumptions),
        "numbers": dict(finding.numbers),
        "fix": None if finding.fix is None else fix(file, finding, finding.fix),
        "unfixable": finding.unfixable or None,
        "certificate": None if finding.fix is None else certificate(finding.fix.certificate),
    }


def location(place: Place) -> dict[str, int]:
    return {"row": place.row, "column": place.column}


def evidence(file: CheckedFile, reason: str, span: Any) -> dict[str, Any]:
    place = None if span is None else file.place(span.line, span.column)
    return {
        "reason": reason,
        "cell": place.cell if place else None,
        "location": location(place) if place else None,
    }


def fix(file: CheckedFile, finding: Finding, fix: Fix) -> dict[str, Any]:
    """The repair as ruff prints one; all findings of a loop carry the same edits."""
    applicability = file.applicability(finding)
    edits = []
    for edit in fix.edits:
        start, end = file.place(edit.span.line, edit.span.column), file.end(edit.span)
        shown = {"content": edit.content, "location": location(start), "end_location": location(end)}
        edits.append(shown if start.cell is None else {"cell": start.cell, **shown})
    return {
        "applicability": applicability.value if applicability else "display",
        "message": fix.message,
        "strategy": fix.strategy,
        "edits": edits,
    }


def certificate(certificate: Certificate) -> dict[str, Any]:
    """What has been established about the repair, and nothing more."""
    return {
        "level": certificate.level,
        "applicability": certificate.applicability.value,
        "discharged": sorted(check.value for check in certificate.discharged),
        "assumptions": list(certificate.assumptions),
        "missing": list(certificate.missing),
        "disagreement": certificate.disagreement or None,
        "notes": list(certificate.notes),
        "measures": [
            {
                "check": measure.check.value,
                "error": measure.error,
                "limit": measure.limit,
                "original_error": measure.original_error,
                "counts": [list(window) for window in measure.counts],
                "seed": measure.seed,
                "engine": measure.engine,
            }
            for measure in certificate.measures
        ],
    }
