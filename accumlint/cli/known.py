"""The baseline: findings that are known are left out, and `--write-baseline` makes the present ones known."""

from __future__ import annotations

import os

from accumlint.cli import output
from accumlint.cli.errors import CLEAN, ERROR, UsageError
from accumlint.cli.settings import Settings
from accumlint.report.model import CheckedFile, Run, plural
from accumlint.source.baseline import Baseline, Place
from accumlint.source.text import SourceError
from accumlint.source.write import WriteError


def read(settings: Settings) -> Baseline | None:
    """The baseline to hold findings against. Raises UsageError if it cannot be read."""
    if settings.flags["write_baseline"]:
        if settings.baseline is None:
            raise UsageError("--write-baseline needs --baseline FILE (or `baseline` in the configuration)")
        return None
    if settings.baseline is None:
        return None
    try:
        return Baseline.read(settings.baseline)
    except SourceError as error:
        raise UsageError(f"{settings.baseline}: {error.message}") from None


def hide(run: Run, settings: Settings, baseline: Baseline | None) -> None:
    """Take the known findings out of the run."""
    if baseline is None:
        return
    known = iter(baseline.filter(_places(run, settings)))
    for file in run.files:
        answers = [next(known) for _ in file.findings]
        file.findings = [finding for finding, is_known in zip(file.findings, answers, strict=True) if not is_known]
        file.baselined = sum(answers)


def write(run: Run, settings: Settings) -> int:
    """Write the baseline and say so. Raises UsageError if it cannot be written."""
    assert settings.baseline is not None
    if any(run.all_problems()):
        raise UsageError("the baseline is not written, as some files could not be checked")
    try:
        Baseline.of(_places(run, settings)).write(settings.baseline)
    except WriteError as error:
        raise UsageError(f"--baseline: {error}") from None
    output.say_plainly(f"{plural(run.count(), 'finding')} written to {settings.baseline}")
    return CLEAN if not any(run.all_problems()) else ERROR


def _places(run: Run, settings: Settings) -> list[Place]:
    return [
        Place(_relative(file, settings), finding.code, finding.span.line, file.source.display_lines)
        for file, finding in run.findings()
        if file.source is not None
    ]


def _relative(file: CheckedFile, settings: Settings) -> str:
    """The path from the folder of the baseline, so that it does not matter where the tool is run."""
    assert settings.baseline is not None
    try:
        return os.path.relpath(file.filename, settings.baseline.parent)
    except ValueError:  # another drive
        return file.filename
