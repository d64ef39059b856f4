"""`accumlint verify`: the user's own loop against the full batch, before and after a repair."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from accumlint.cli.errors import CLEAN, ERROR, FINDINGS, UsageError
from accumlint.cli.repaired import repaired

if TYPE_CHECKING:
    from accumlint.findings import FileReport, Finding
    from accumlint.harness.factory import RepairVerification, Verification
    from accumlint.source.text import SourceText

LONGEST_ERROR = 400


@click.command("verify", short_help="Run your own loop against the full batch.")
@click.argument("target", metavar="FILE[::FUNCTION]")
@click.option("--factory", metavar="MODULE:FUNCTION", help="Gives the model, microbatches, counts and arguments.")
@click.option("--timeout", type=click.IntRange(1, 86_400), default=120, help="Seconds for each run.  [default: 120]")
@click.option("--memory", type=click.IntRange(1), default=8192, help="MB of a run above torch's own.  [default: 8192]")
def command(target: str, factory: str | None, timeout: int, memory: int) -> int:
    """Run FUNCTION of FILE with what the factory gives, as it is and repaired, and compare with the full batch.

    This executes FILE and the factory, in a subprocess that is limited in time and memory. Without a factory, FILE is
    only checked: its repairs are confirmed as far as they can be without your model and data.

    Exit codes: 0 equivalent (without a factory: nothing found), 1 different (findings), 2 an error; 0 and 1 speak of
    the file as it is, and a run that could not be made is always 2.
    """
    name, separator, function = target.partition("::")
    if separator and factory is None:
        raise UsageError(f"verify: {target} is only run with --factory module:function; without it, give {name} alone")
    if factory is not None and not separator:
        raise UsageError(f"verify: --factory needs the function to run: {name}::FUNCTION")
    source = _read(name)
    if factory is None:
        return _without_factory(source, name)
    if name.endswith(".ipynb"):
        raise UsageError(f"{name}: the cells of a notebook are not run; move the loop to a .py file")
    return _with_factory(source, f"{name}::{function}", factory, timeout, memory * 2**20)


def _read(name: str) -> SourceText:
    from accumlint.source.notebook import read_path
    from accumlint.source.text import SourceError

    try:
        return read_path(Path(name))
    except SourceError as error:
        raise UsageError(f"{name}: {error.message}") from None


def _with_factory(source: SourceText, target: str, factory: str, timeout: int, memory: int) -> int:
    from accumlint.harness.errors import FactoryError
    from accumlint.harness.factory import Outcome, RepairVerification, verify

    def run(text: str, title: str) -> Verification:
        try:
            result = verify(target, factory, text=text, timeout=timeout, memory=memory)
        except FactoryError as error:
            raise UsageError(f"verify: {_one_line(str(error))}") from None
        if result.outcome not in (Outcome.EQUIVALENT, Outcome.DIFFERENT):
            raise UsageError(f"{target}, {title}: {_failure(result)}")
        _say(f"{title}: {result.text}\n")
        return result

    click.echo(
        f"accumlint verify RUNS YOUR CODE: {target} and {factory}, in a subprocess ({timeout} s, {memory >> 20} MB)",
        err=True,
    )
    before = run(source.text, "as it is")
    status = CLEAN if before.equivalent else FINDINGS
    repaired_text = repaired(source)
    if repaired_text is None:
        _say("no repair of this file is known to accumlint")
        return status
    both = RepairVerification(before, run(repaired_text.text, "repaired (not written)"))
    if both.confirmed:
        _say("certificate: end-to-end: the repaired loop makes the full-batch update and the original does not")
    elif not both.after.equivalent:
        _say(f"certificate: none: {_what_is_left(both)}")
    else:
        _say("certificate: not end-to-end: the original makes the full-batch update on these data as well")
    return status


def _what_is_left(both: RepairVerification) -> str:
    """Why a repaired loop is not equivalent: faults that no repair was for, or a fault of ours."""
    kinds = {fault["kind"] for fault in both.before.report["faults"]}
    left = [fault for fault in both.after.report["faults"] if fault["kind"] not in kinds]
    if left or len(both.after.report["faults"]) == len(both.before.report["faults"]):
        return "the repaired loop does not make the full-batch update; please report this"
    names = ", ".join(fault["kind"] for fault in both.after.report["faults"])
    return f"the repair is of other faults than what is left ({names}): cure that by hand, then verify again"


def _failure(result: Verification) -> str:
    """Why there is no report, in one line."""
    from accumlint.harness.factory import Outcome

    if result.outcome is Outcome.NO_TORCH:
        return f"torch cannot be imported: pip install 'accumlint[torch]' ({_one_line(result.error)})"
    error = result.error or result.error_type
    if result.outcome is Outcome.CRASHED:
        last = next((text for text in reversed(result.output.splitlines()) if text.strip()), "")
        error += f"; it printed last: {last}" if last else ""
    return f"{result.outcome.value}: {_one_line(error)}"


def _one_line(text: str) -> str:
    from accumlint.picture.text import printable

    short = printable(" ".join(text.split()))
    return short if len(short) <= LONGEST_ERROR else short[:LONGEST_ERROR] + "..."


def _without_factory(source: SourceText, name: str) -> int:
    from accumlint.analysis import Options, check_source

    report = check_source(source, Options(repair=True, confirm=True))
    for problem in report.problems:
        place = f"{name}:{problem.line}" if problem.line else name
        click.echo(f"error: {place}: {_one_line(problem.message)}", err=True)
    if report.problems:
        return ERROR
    _say("without a factory, your loop, model and data are not run")
    for text in _listed(report, source, name):
        _say(text)
    return FINDINGS if report.findings else CLEAN


def _listed(report: FileReport, source: SourceText, name: str) -> Iterator[str]:
    from accumlint.findings import LoopStatus

    for finding in report.findings:
        yield f"{_place(source, name, finding.span.line)}: {finding.code} {finding.message}"
        yield from _certified(finding)
    missed = [loop for loop in report.loops if loop.status is LoopStatus.NOT_REACHED]
    for loop in missed:
        yield f"{_place(source, name, loop.span.line)}: not analysed: {loop.reason}"
        yield "  a factory would add: the only check of this loop"
    if not report.findings:
        analysed = len(report.loops) - len(missed)
        yield f"nothing found by reading ({analysed} analysed, {len(missed)} not reached); equivalence was not checked"
        yield "  a factory would add: the gradients and updates of your own loop beside those of the full batch"


def _certified(finding: Finding) -> Iterator[str]:
    if finding.fix is None:
        yield f"  certificate: none: {finding.unfixable or 'no repair is known for it'}"
        yield "  a factory would add: whether your own loop is different from the full batch, and by how much"
        return
    certificate = finding.fix.certificate
    yield f"  certificate: {certificate.level} ({certificate.applicability.value}): {finding.fix.message}"
    for missing in certificate.missing:
        yield f"    missing for safe: {missing}"
    yield "  a factory would add: end-to-end: your own loop, model and data, before and after this repair"


def _place(source: SourceText, name: str, line: int) -> str:
    place = source.locate(line)
    return f"{name}:{line}" if place.cell is None else f"{name}:cell {place.cell}:{place.line}"


def _say(text: str) -> None:
    from accumlint.picture.text import printable

    click.echo("\n".join(printable(each) for each in text.split("\n")))
