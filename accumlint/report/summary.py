"""The lines below the findings: how many, in how many files, how many loops were analysed, which repairs there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from accumlint.findings import LoopStatus
from accumlint.repair.certificate import Applicability, Check
from accumlint.report.headline import where
from accumlint.report.model import Run, plural
from accumlint.report.styled import Line, Piece, line


def summary(run: Run, verbose: bool) -> Iterator[Line]:
    """The summary of the text formats."""
    loops = _loops(run, verbose)
    with_findings = sum(bool(file.findings) for file in run.files)
    failed = len({problem.filename for problem in run.all_problems()})
    if run.count():
        found = f"Found {plural(run.count(), 'error')} in {plural(with_findings, 'file')}"
        yield line(Piece(found, "header"), f"; {loops}")
    elif not failed:
        yield line(Piece("All checks passed", "header"), f"; {loops}")
    else:
        yield line(f"Found no error in the files that could be checked; {loops}")
    if failed:
        yield line(Piece(f"{plural(failed, 'file')} could not be checked", "code"), ", see the messages above")
    fixed = sum(sum(file.fixed.values()) for file in run.files)
    if fixed:
        changed = sum(bool(file.fixed) for file in run.files)
        yield line(f"Repaired {plural(fixed, 'error')} in {plural(changed, 'file')}")
    added = sum(file.noqa_added for file in run.files)
    if added:
        yield line(f"Added noqa for {plural(added, 'error')}")
    hidden = sum(file.baselined for file in run.files)
    if hidden:
        yield line(f"{plural(hidden, 'known finding')} left out by the baseline")


def _loops(run: Run, verbose: bool) -> str:
    analysed, missed = run.loops(LoopStatus.ANALYSED), run.loops(LoopStatus.NOT_REACHED)
    if not analysed and not missed:
        return f"no training loop in {plural(len(run.files), 'file')}"
    hint = "" if verbose or not missed else " (see -v)"
    return f"{plural(analysed, 'training loop')} analysed, {missed} not reached{hint}"


def repairs(run: Run, confirmed: bool, has_torch: bool) -> Iterator[Line]:
    """Which repairs there are. `confirmed`: they were executed with torch, as far as it is there."""
    fixes = {
        id(finding.fix): (file.applicability(finding), finding.fix) for file, finding in run.findings() if finding.fix
    }
    if not fixes:
        return
    if not confirmed:
        it = "it" if len(fixes) == 1 else "them"
        yield line(
            f"{plural(len(fixes), 'repair')} planned: --confirm executes {it} with torch, --fix applies what is safe"
        )
        return
    kinds = Counter(applicability for applicability, _ in fixes.values())
    flags = {
        Applicability.SAFE: "safe (--fix applies it)",
        Applicability.UNSAFE: "unsafe (--fix --unsafe-fixes applies it)",
        Applicability.DISPLAY: "for display only",
    }
    shown = ", ".join(f"{kinds[kind]} {text}" for kind, text in flags.items() if kinds[kind])
    yield line(f"{plural(len(fixes), 'repair')}: {shown}")
    if not has_torch and any(Check.EXECUTED not in fix.certificate.discharged for _, fix in fixes.values()):
        yield line("No repair was executed, as torch is not installed: pip install 'accumlint[torch]'")
        yield line("(--fix --require proved applies what is proved without it)")


def not_reached(run: Run) -> Iterator[Line]:
    """With -v: each loop that was not analysed, and why."""
    for file in run.files:
        for loop in file.loops:
            if loop.status is LoopStatus.NOT_REACHED:
                place = where(file.filename, file.place(loop.span.line, loop.span.column))
                yield line(Piece(place, "path"), f": loop not analysed: {loop.reason}")
