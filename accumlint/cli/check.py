"""What `accumlint check` does, from flags to exit code."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from accumlint.cli.checking import check_path
from accumlint.cli.errors import CLEAN, ERROR, FINDINGS
from accumlint.cli.inputs import find_files
from accumlint.cli.settings import Settings, gather
from accumlint.report.formats import load
from accumlint.report.model import Run


def check(flags: Mapping[str, Any]) -> int:
    """Run `check` and return its exit code."""
    settings = gather(flags)
    run = Run([check_path(path, str(path), settings) for path in find_files(settings)])
    click.echo(load(settings.output_format)(run), nl=False)
    for problem in run.all_problems():
        click.echo(f"error: {problem.filename}:{problem.line}: {problem.message}", err=True)
    return exit_code(run, settings)


def exit_code(run: Run, settings: Settings) -> int:
    if any(run.all_problems()):
        return ERROR
    return FINDINGS if run.count() and not settings.flags["exit_zero"] else CLEAN
