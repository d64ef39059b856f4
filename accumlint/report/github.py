"""Workflow commands of GitHub Actions: annotations on the lines of a pull request."""

from __future__ import annotations

from accumlint.findings import Finding
from accumlint.report.fingerprint import posix
from accumlint.report.headline import where
from accumlint.report.model import CheckedFile, Run


def render(run: Run) -> str:
    shown = [_finding(file, finding) for file, finding in run.findings()]
    for problem in run.all_problems():
        place = f",line={problem.line}" if problem.line else ""
        file = _property(posix(problem.filename))
        shown.append(f"::error title=accumlint,file={file}{place}::{_data(problem.message)}")
    return "".join(f"{text}\n" for text in shown)


def _finding(file: CheckedFile, finding: Finding) -> str:
    start = file.place(finding.span.line, finding.span.column)
    end = file.end(finding.span)
    columns = f",col={start.column},endColumn={end.column}" if start.row == end.row else f",col={start.column}"
    place = f"file={_property(posix(file.filename))},line={start.row}{columns},endLine={end.row}"
    message = f"{where(file.filename, start)}: {finding.code} {finding.message}"
    return f"::error title=accumlint ({finding.code}),{place}::{_data(message)}"


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
