"""What `accumlint check` does, from flags to exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from accumlint.cli import known, output
from accumlint.cli.cache import open_cache
from accumlint.cli.errors import CLEAN, ERROR, FINDINGS
from accumlint.cli.inputs import STDIN, Inputs, find_inputs
from accumlint.cli.progress import with_progress
from accumlint.cli.settings import Settings, gather
from accumlint.cli.show import settings_text
from accumlint.cli.workers import process_cached
from accumlint.report.model import Run


def check(flags: Mapping[str, Any]) -> int:
    """Run `check` and return its exit code."""
    settings = gather(flags)
    if flags["show_settings"]:
        sys.stdout.write(settings_text(settings))
        return CLEAN
    inputs = find_inputs(settings)
    if flags["show_files"]:
        return _show_files(inputs, settings)
    output.check_writable(settings)
    baseline = known.read(settings)
    run = Run(problems=list(inputs.problems))
    changed = 0
    results = process_cached(inputs.files, settings, flags["jobs"], open_cache(settings))
    for outcome in with_progress(results, inputs.files, not settings.quiet):
        if outcome.file is not None:
            run.files.append(outcome.file)
        changed += outcome.changed
        if outcome.stdout:
            output.write_bytes(outcome.stdout)
    output.problems(run, settings)
    if flags["write_baseline"]:
        return known.write(run, settings)
    known.hide(run, settings, baseline)
    if settings.diff:
        output.diff_summary(run, settings)
        return ERROR if any(run.all_problems()) else FINDINGS if changed else CLEAN
    output.report(run, settings, to_stderr=(settings.fix or flags["add_noqa"]) and STDIN in settings.paths)
    return _exit_code(run, settings)


def _show_files(inputs: Inputs, settings: Settings) -> int:
    sys.stdout.write("".join(f"{found.shown}\n" for found in inputs.files))
    output.problems(Run(problems=list(inputs.problems)), settings)
    return ERROR if inputs.problems else CLEAN


def _exit_code(run: Run, settings: Settings) -> int:
    if any(run.all_problems()):
        return ERROR
    if settings.flags["exit_non_zero_on_fix"] and any(file.fixed for file in run.files):
        return FINDINGS
    return FINDINGS if run.count() and not settings.flags["exit_zero"] else CLEAN
