"""JSON, one object a line: for streams."""

from __future__ import annotations

import json

from accumlint.report.json import diagnostic
from accumlint.report.model import Run


def render(run: Run) -> str:
    return "".join(json.dumps(diagnostic(file, finding)) + "\n" for file, finding in run.findings())
