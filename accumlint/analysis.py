"""The pipeline: source -> regions -> traces -> violations -> findings (-> repairs). The faces call only this.

Importing this module costs nothing: the parser, the interpreter and the rules are imported when the first file that can
hold a training loop is checked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from accumlint.findings import FileReport, Finding, Loop, LoopStatus, Problem
from accumlint.reading.prefilter import Gate, derives_trainer, may_train, parse, worth_parsing, worth_reading
from accumlint.reading.recursion import rare_collection

if TYPE_CHECKING:
    import ast
    from collections.abc import Iterable, Iterator

    from accumlint.contract.judge import Judged
    from accumlint.contract.verdict import Abstention, Violation
    from accumlint.reading.contracts import LossContract
    from accumlint.reading.ir import NodeId
    from accumlint.reading.program import Module
    from accumlint.rules.base import Rule
    from accumlint.source.notebook import NotebookText
    from accumlint.source.text import SourceText


HEADS = "ACC108"
"""The rule about model heads, of which there are many where there is no loop: without it none is read."""

LARGEST_TEXT = 4_000_000
"""Characters of a file that is still read; generated files beyond it are refused, not skipped in silence."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the pipeline needs to know; selection, suppression and output are the faces' business.

    `codes` are the rules to evaluate (None: all default-on ones). `repair` plans repairs and proves them; `confirm`
    also executes them with torch in a subprocess, if torch is there. `contracts` declare losses that no file shows.
    """

    codes: frozenset[str] | None = None
    repair: bool = False
    confirm: bool = False
    strategy: str = "auto"
    contracts: tuple[LossContract, ...] = ()


def check_source(
    source: SourceText | NotebookText, options: Options | None = None, tree: ast.Module | None = None
) -> FileReport:
    """Check one file or notebook. Never raises for bad input: `FileReport.problems` says what was wrong.

    `tree` is what `ast` made of the text, if somebody asked already."""
    options = options or Options()
    report = FileReport(source.filename)
    if len(source.text) > LARGEST_TEXT:
        size, limit = len(source.text) / 1e6, LARGEST_TEXT / 1e6
        report.problems.append(Problem(source.filename, f"too large: {size:.1f} MB, the limit is {limit:.0f} MB"))
        return report
    gate, tree = _gates(source, options, tree)
    if not gate:
        refused = _refused(source) if tree is None else None
        report.problems += [] if refused is None else [refused]
        return report
    with rare_collection():
        return _read_and_judge(source, options, gate, tree, report)


def _read_and_judge(
    source: SourceText | NotebookText, options: Options, gate: Gate, tree: ast.Module | None, report: FileReport
) -> FileReport:
    """The same for a file that may hold something, from its text (or its tree) to the report."""
    from accumlint.reading.read import ReadError, read_module

    try:
        module = read_module(source.text, source.filename, contracts=options.contracts, tree=tree)
    except ReadError as error:
        report.problems.append(Problem(source.filename, error.message, error.line, error.column))
        return report
    judged = judge_module(module, report) if gate & ~Gate.HEAD else []
    from accumlint.contract.class_rules import judge_classes

    violations = [violation for each in judged for violation in each.violations] + judge_classes(module)
    report.findings = _worded(module, violations, options)
    if options.repair and report.findings:
        from accumlint.repair.attach import attach_repairs

        attach_repairs(source, module, judged, report, strategy=options.strategy, confirm=options.confirm)
    return report


def _gates(
    source: SourceText | NotebookText, options: Options, tree: ast.Module | None
) -> tuple[Gate, ast.Module | None]:
    """What the file could hold that somebody asked for, and its tree if one was needed to tell.

    A file without a backward of its own may import one from its own project. A head is told by its methods alone."""
    data = source.searchable
    gate = may_train(data)
    if options.codes is not None and HEADS not in options.codes:
        gate &= ~Gate.HEAD
    gate = worth_parsing(source.text, gate) if gate else gate
    head, rest = gate & Gate.HEAD, gate & ~Gate.HEAD
    tree = parse(source.text) if gate and tree is None else tree
    rest = worth_reading(tree, rest) if rest else rest
    if not rest and imports_training(source.filename, data):
        rest = Gate.LOOP
    return head | rest, tree


def imports_training(filename: str, data: bytes) -> bool:
    """Whether a file that holds no backward itself imports one from its own project."""
    looped = b"step" in data and (b"for " in data or b"while " in data)
    if b"import" not in data or not (looped or derives_trainer(data)):
        return False
    from accumlint.reading.project import project_of

    project = project_of(filename)
    return project is not None and project.imports_training(filename, data)


def _refused(source: SourceText | NotebookText) -> Problem | None:
    """A file without a training loop is only parsed: one that cannot be parsed must not look like a clean one.

    Making a table of its symbols costs half of `ast.parse`, which turns all that the parser saw into objects. It
    refuses more than the parser does (a `nonlocal` in a module), so what it refuses is read as any other file.
    """
    import symtable
    import warnings

    from accumlint.reading.recursion import no_collection

    try:
        with no_collection(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            symtable.symtable(source.text, source.filename, "exec")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        from accumlint.reading.read import ReadError, read_module

        try:
            read_module(source.text, source.filename)
        except ReadError as error:
            return Problem(source.filename, error.message, error.line, error.column)
    return None


def judge_module(module: Module, report: FileReport | None = None) -> list[Judged]:
    """Run and judge every region of a module; `report` receives the status of its loops."""
    from accumlint.contract.judge import judge_regions

    judged = judge_regions(module)
    for each in judged if report is not None else ():
        if report is not None and each.result.region.node >= 0:
            status = LoopStatus.ANALYSED if each.abstention is None else LoopStatus.NOT_REACHED
            reason = "" if each.abstention is None else _reason(module, each.abstention, each.result.region.node)
            report.loops.append(Loop(module.syntax.span(each.result.region.node), status, reason))
    return judged


def _reason(module: Module, abstention: Abstention, region: NodeId) -> str:
    """Why a loop was not judged, with the line of what the reason speaks of, where that is inside the loop's code."""
    if abstention.node is None or abstention.node == region:
        return abstention.reason
    return f"{abstention.reason} on line {module.syntax.span(abstention.node).line}"


def traces(source: SourceText | NotebookText, contracts: tuple[LossContract, ...] = ()) -> Iterator[str]:
    """The printed trace of the default path of every region of a file (`accumlint trace`).

    Raises ReadError for a file that cannot be parsed.
    """
    from accumlint.reading.read import read_module
    from accumlint.semantics.trace import render

    for each in judge_module(read_module(source.text, source.filename, contracts=contracts)):
        yield render(each.result.default[0]) if each.result.default else f"stopped {each.result.stopped}"


def _worded(module: Module, violations: Iterable[Violation], options: Options) -> list[Finding]:
    """The findings of the wanted rules, sorted by place."""
    from accumlint.rules.registry import all_rules

    rules = [rule for rule in all_rules() if rule.clause is not None and _wanted(rule, options)]
    by_clause: dict[object, Rule] = {rule.clause: rule for rule in rules}
    found = _findings(module, violations, by_clause)
    return sorted(found, key=lambda finding: (finding.span, finding.code))


def _wanted(rule: Rule, options: Options) -> bool:
    return rule.code in options.codes if options.codes is not None else rule.state == "on"


def _findings(module: Module, violations: Iterable[Violation], by_clause: dict[object, Rule]) -> list[Finding]:
    from dataclasses import replace

    findings: dict[tuple[str, object], Finding] = {}
    for violation in violations:
        rule = by_clause.get(violation.clause)
        if rule is None:
            continue
        span = module.syntax.span(violation.node)
        worded = replace(violation, subject=violation.subject or module.syntax.text(violation.node))
        key = (rule.code, span)
        if key in findings:
            continue
        findings[key] = Finding(
            rule.code,
            rule.name,
            rule.message(worded),
            module.filename,
            span,
            rule.hint(worded),
            violation.confidence.value,
            tuple((e.reason, None if e.node is None else module.syntax.span(e.node)) for e in violation.evidence),
            violation.assumptions,
            numbers=_numbers(violation),
        )
    return list(findings.values())


def _numbers(violation: Violation) -> dict[str, str]:
    numbers = {
        "window": str(violation.window) if violation.window else "",
        "steps": str(violation.steps) if violation.steps else "",
        "divisor": violation.divisor,
        "counts": ", ".join(str(count) for count in violation.counts),
        "weights": ", ".join(str(weight) for weight in violation.weights),
        "actual": "" if violation.actual is None else str(violation.actual),
        "expected": "" if violation.expected is None else str(violation.expected),
    }
    return {name: text for name, text in numbers.items() if text}


__all__ = ["Options", "Problem", "check_source", "traces"]
