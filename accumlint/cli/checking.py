"""One file: read, analysed, selected, suppressed. Whatever goes wrong becomes a problem of that file."""

from __future__ import annotations

from pathlib import Path

from accumlint.analysis import Options, check_source
from accumlint.cli.errors import describe_fault
from accumlint.cli.inputs import load
from accumlint.cli.rules import known_codes
from accumlint.cli.settings import Settings
from accumlint.findings import Problem
from accumlint.report.model import CheckedFile, Trust
from accumlint.source.text import SourceError, SourceText


def check_path(path: Path, shown: str, settings: Settings) -> CheckedFile:
    """Read and check one file."""
    try:
        source = load(path, shown)
    except SourceError as error:
        return CheckedFile(shown, problems=[Problem(shown, error.message, error.line, error.column)])
    return check_text(source, shown, path, settings)


def check_text(source: SourceText, shown: str, path: Path, settings: Settings) -> CheckedFile:
    """Check a text that has been read; `path` decides about per-file ignores."""
    trust = Trust(settings.safe_codes, settings.unsafe_codes)
    file = CheckedFile(shown, source, trust=trust)
    codes = settings.codes - settings.per_file_ignores.codes(path, known_codes())
    options = Options(codes=codes, repair=settings.repairs, confirm=settings.confirms, strategy=settings.strategy)
    try:
        report = check_source(source, options)
    except Exception as error:  # the engine promises not to raise; if it does, the other files are still checked
        file.problems.append(Problem(shown, describe_fault(error, ""), internal=True))
        return file
    file.loops, file.problems = report.loops, report.problems
    file.findings = [finding for finding in report.findings if finding.code in codes]
    file.findings.sort(key=lambda finding: (finding.span, finding.code))
    return file
