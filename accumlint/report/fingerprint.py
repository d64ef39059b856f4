"""A name for a finding that survives edits elsewhere in the file: GitHub and GitLab follow findings by it."""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.findings import Finding
from accumlint.report.model import CheckedFile, Run
from accumlint.source import baseline


def fingerprints(run: Run) -> Iterator[tuple[CheckedFile, Finding, str]]:
    """Every finding with the fingerprint that the baseline knows it by."""
    found = list(run.findings())
    places = [
        baseline.Place(file.filename, finding.code, finding.span.line, file.source.display_lines if file.source else [])
        for file, finding in found
    ]
    for (file, finding), fingerprint in zip(found, baseline.fingerprints(places), strict=True):
        yield file, finding, fingerprint


def posix(filename: str) -> str:
    """A path as reports write it, whatever the system."""
    return filename.replace("\\", "/")
