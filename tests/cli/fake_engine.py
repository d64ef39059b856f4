"""A stand-in for the engine, so that the faces are tested by what they do with findings, whatever the engine finds.

A call `accNNN_LEVEL(...)` is a finding ACCNNN; LEVEL says what its repair is: `safe`, `executed`, `proved`, `display`
or `none`. A repair turns the call into `good(...)`. `with_shared(...)` calls of one file share one safe repair
(ACC101). `loop()` is a loop that was analysed, `lost()` one that was not, `crash()` is a fault, `raising()` an
exception; `acc301_endless(...)` has a safe repair that changes nothing for the better, `acc301_broken(...)` one that
breaks the file.
"""

from __future__ import annotations

import ast
import os
import re
import sys

from accumlint import analysis
from accumlint.analysis import Options
from accumlint.findings import Edit, FileReport, Finding, Fix, Loop, LoopStatus, Problem
from accumlint.reading.program import Span
from accumlint.repair.certificate import Certificate, Check, Measure
from accumlint.source.text import SourceText

CALL = re.compile(r"(?:acc(?P<code>\d{3})_(?P<level>[a-z]+)|with_shared)\(|(?P<word>loop|lost|crash|raising)\(\)")
MEASURE = Measure(Check.EXECUTED, 2e-16, 1e-12, 0.37, ((2, 5), (0, 3)), 7, "torch 2.13.0")
CHECKS = {
    "safe": {Check.PROVED, Check.EXECUTED, Check.LEAF_CHECKED},
    "endless": {Check.PROVED, Check.EXECUTED, Check.LEAF_CHECKED},
    "broken": {Check.PROVED, Check.EXECUTED, Check.LEAF_CHECKED},
    "executed": {Check.PROVED, Check.EXECUTED},
    "proved": {Check.PROVED},
    "display": {Check.PROVED},
}
REPLACEMENTS = {"endless": "acc301_endless", "broken": "good(("}


def check_source(source: SourceText, options: Options | None = None, tree: ast.Module | None = None) -> FileReport:
    options = options or Options()
    report = FileReport(source.filename)
    if os.environ.get("ACCUMLINT_FAKE_LOG"):  # which files were asked for
        with open(os.environ["ACCUMLINT_FAKE_LOG"], "a") as log:
            log.write(f"{source.filename}\n")
    try:
        ast.parse(source.text)
    except SyntaxError as error:
        report.problems.append(Problem(source.filename, f"syntax error: {error.msg}", error.lineno or 0, 0))
        return report
    shared: list[Edit] = []
    for line, text in enumerate(source.lines, start=1):
        for match in CALL.finditer(text.split("#")[0]):
            _read(report, match, line, options, shared)
    if shared and options.repair:
        fix = Fix("Weight by valid targets", tuple(shared), _certificate("safe", options))
        report.findings = [
            finding if finding.code != "ACC101" else _finding(report, "101", finding.span, fix)
            for finding in report.findings
        ]
    return report


def _read(report: FileReport, match: re.Match[str], line: int, options: Options, shared: list[Edit]) -> None:
    name = Span(line, match.start(), line, match.end() - 1)
    match match["word"]:
        case "loop":
            report.loops.append(Loop(name, LoopStatus.ANALYSED))
        case "lost":
            report.loops.append(Loop(name, LoopStatus.NOT_REACHED, "the budget was spent"))
        case "crash":
            report.problems.append(Problem(report.filename, "broken invariant", line, internal=True))
        case "raising":
            raise RuntimeError("something\nwith two lines")
        case _ if match["code"] is None:
            shared.append(Edit(name, "good"))
            report.findings.append(_finding(report, "101", name, None))
        case _:
            level = match["level"]
            fix = None
            if level != "none" and options.repair:
                edit = Edit(name, REPLACEMENTS.get(level, "good"))
                fix = Fix("Move the call", (edit,), _certificate(level, options))
            report.findings.append(_finding(report, match["code"], name, fix))


def _finding(report: FileReport, code: str, span: Span, fix: Fix | None) -> Finding:
    evidence = (("ignore_index=-100", Span(1, 0, 1, 3)), ("a mask", None))
    return Finding(
        f"ACC{code}", f"name-{code}", "each target weighs 2.5x", report.filename, span, "weight by valid targets",
        "assumed", evidence, ("the clip is active",), fix, "" if fix else "the boundary is not visible",
        {"ratio": "2.5"},
    )  # fmt: skip


def _certificate(level: str, options: Options) -> Certificate:
    checks = CHECKS[level] if options.confirm else CHECKS[level] & {Check.PROVED}
    return Certificate(
        frozenset(checks),
        assumptions=("K is positive",),
        missing=() if Check.LEAF_CHECKED in checks else ("the leaf was not checked",),
        measures=(MEASURE,) if Check.EXECUTED in checks else (),
        disagreement="torch and the interpreter" if level == "display" else "",
    )


def install() -> None:
    """Put the stand-in where the faces look for the engine."""
    from accumlint.cli import checking

    checking.check_source = check_source
    analysis.check_source = check_source


if __name__ == "__main__":
    install()
    if sys.argv[1:2] == ["flake8"]:
        from flake8.main.cli import main as flake8

        sys.exit(flake8(sys.argv[2:]))
    from accumlint.cli.main import main

    main()
