"""A name for a finding that survives edits elsewhere in the file: GitHub and GitLab follow findings by it."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator

from accumlint.findings import Finding
from accumlint.report.model import CheckedFile, Run


def fingerprints(run: Run) -> Iterator[tuple[CheckedFile, Finding, str]]:
    """Every finding with its fingerprint: of code, file, the finding's lines, and how often these came before."""
    for file in run.files:
        seen: Counter[str] = Counter()
        for finding in file.findings:
            text = " ".join(file.line(number).strip() for number in range(finding.span.line, finding.span.end_line + 1))
            key = f"{finding.code}\0{posix(file.filename)}\0{text}"
            digest = hashlib.sha256(f"{key}\0{seen[key]}".encode("utf-8", "surrogateescape")).hexdigest()
            seen[key] += 1
            yield file, finding, digest[:32]


def posix(filename: str) -> str:
    """A path as reports write it, whatever the system."""
    return filename.replace("\\", "/")
