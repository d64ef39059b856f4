"""One file: read, analysed, selected, suppressed. Whatever goes wrong becomes a problem of that file."""

from __future__ import annotations

from pathlib import Path

from accumlint.analysis import Options, check_source
from accumlint.cli.errors import describe_fault
from accumlint.cli.rules import known_codes
from accumlint.cli.settings import Settings
from accumlint.cli.unused import unused_suppressions
from accumlint.findings import Problem
from accumlint.report.model import UNUSED_SUPPRESSION, CheckedFile, Trust
from accumlint.source.suppressions import Suppressions
from accumlint.source.text import SourceText


def check_text(source: SourceText, shown: str, path: Path, settings: Settings) -> CheckedFile:
    """Check a text that has been read; `path` decides about per-file ignores."""
    file = CheckedFile(shown, source, trust=Trust(settings.safe_codes, settings.unsafe_codes))
    codes = settings.codes - settings.per_file_ignores.codes(path, known_codes())
    suppressions = Suppressions("" if settings.flags["ignore_noqa"] else source.text)
    if suppressions.skips_file:
        return file
    options = Options(
        codes=codes,
        repair=settings.repairs,
        confirm=settings.confirms,
        strategy=settings.strategy,
        contracts=settings.loss_contracts,
    )
    try:
        report = check_source(source, options)
    except Exception as error:  # the engine promises not to raise; if it does, the other files are still checked
        file.problems.append(Problem(shown, describe_fault(error), internal=True))
        return file
    file.loops, file.problems = report.loops, [shown_as(problem, shown) for problem in report.problems]
    for finding in report.findings:
        if finding.code not in codes:
            continue
        if suppressions.covers(finding.code, finding.span.line):
            file.suppressed += 1
        else:
            file.findings.append(finding)
    if UNUSED_SUPPRESSION in codes and not file.problems:
        file.findings += unused_suppressions(suppressions, shown, codes, known_codes())
    file.findings.sort(key=lambda finding: (finding.span, finding.code))
    return file


def shown_as(problem: Problem, shown: str) -> Problem:
    """The same problem under the name that the user gave the file."""
    return Problem(shown, problem.message, problem.line, problem.column, problem.internal)
