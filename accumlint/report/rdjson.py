"""Reviewdog's diagnostic format. One suggestion holds one edit, so a repair of several edits becomes several."""

from __future__ import annotations

import json
from typing import Any

from accumlint.findings import Finding
from accumlint.reading.program import Span
from accumlint.report.fingerprint import posix
from accumlint.report.model import CheckedFile, Run, rule_url


def render(run: Run) -> str:
    report = {
        "source": {"name": "accumlint", "url": "https://accumlint.readthedocs.io"},
        "severity": "ERROR",
        "diagnostics": [_diagnostic(file, finding) for file, finding in run.findings()],
    }
    return json.dumps(report, indent=2) + "\n"


def _diagnostic(file: CheckedFile, finding: Finding) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "message": finding.message,
        "location": {"path": posix(file.filename), "range": _range(file, finding.span)},
        "severity": "ERROR",
        "code": {"value": finding.code, "url": rule_url(finding.code)},
    }
    if finding.fix is not None and not file.is_notebook:
        shown["suggestions"] = [{"range": _range(file, edit.span), "text": edit.content} for edit in finding.fix.edits]
    return shown


def _range(file: CheckedFile, span: Span) -> dict[str, Any]:
    """Columns count UTF-8 bytes from 1 here, as reviewdog wants them."""
    return {"start": _position(file, span.line, span.column), "end": _position(file, span.end_line, span.end_column)}


def _position(file: CheckedFile, line: int, column: int) -> dict[str, int]:
    place = file.place(line, column)
    return {"line": place.row, "column": len(file.line(line)[:column].encode("utf-8", "replace")) + 1}
