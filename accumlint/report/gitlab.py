"""GitLab's code quality report."""

from __future__ import annotations

import json

from accumlint.report.fingerprint import fingerprints, posix
from accumlint.report.model import Run


def render(run: Run) -> str:
    issues = []
    for file, finding, fingerprint in fingerprints(run):
        start, end = file.place(finding.span.line, finding.span.column), file.end(finding.span)
        issues.append(
            {
                "description": f"{finding.code}: {finding.message}",
                "check_name": finding.code,
                "fingerprint": fingerprint,
                "severity": "major",
                "location": {
                    "path": posix(file.filename),
                    "positions": {
                        "begin": {"line": start.row, "column": start.column},
                        "end": {"line": end.row, "column": end.column},
                    },
                },
            }
        )
    return json.dumps(issues, indent=2) + "\n"
