"""Attach repairs to the findings of a file: plan, rewrite, prove, confirm."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import TYPE_CHECKING

from accumlint.contract.judge import judge_regions
from accumlint.findings import FileReport, Finding, Fix
from accumlint.repair.assure import NotAssured, assure_text
from accumlint.repair.certificate import Certificate
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all

if TYPE_CHECKING:
    from accumlint.contract.judge import Judged
    from accumlint.contract.verdict import Violation
    from accumlint.reading.program import Module, Span
    from accumlint.source.notebook import NotebookText
    from accumlint.source.text import SourceText


def attach_repairs(
    source: SourceText | NotebookText,
    module: Module,
    judged: Iterable[Judged],
    report: FileReport,
    *,
    strategy: str = "auto",
    confirm: bool = False,
) -> None:
    """Plan, rewrite, prove and confirm; sets `fix` or `unfixable` of each finding."""
    judged = list(judged)
    fixes: dict[tuple[str, Span], Fix | str] = {}
    every_path: list[Judged] = []  # the proof looks at flipped paths that the findings did not need
    for each in plan_all(module, judged, strategy):
        if isinstance(each, Unrepairable):
            fixes.setdefault(_key(module, each.violation), each.reason)
            continue
        every_path = every_path or judge_regions(module, thorough=True)
        fix = _fixed(source.text, module, every_path, each, confirm)
        for violation in each.violations:
            fixes[_key(module, violation)] = fix
    fixes |= _of_classes(module)
    report.findings = [_with(finding, fixes) for finding in report.findings]


def _of_classes(module: Module) -> dict[tuple[str, Span], Fix | str]:
    """Repairs of classes whose loops are in a library."""
    from accumlint.contract.class_rules import judge_classes
    from accumlint.repair.item_counts import MESSAGES, repair_class
    from accumlint.repair.rewrite import Layout, Unplannable

    found = [violation for violation in judge_classes(module) if violation.clause in MESSAGES]
    try:
        layout = Layout(module) if found else None
    except (Unplannable, RecursionError):
        return {}
    return {_key(module, v): repair_class(module, layout, v) for v in found if layout is not None}


def _key(module: Module, violation: Violation) -> tuple[str, Span]:
    from accumlint.rules.registry import all_rules

    code = next((rule.code for rule in all_rules() if rule.clause is violation.clause), "")
    return code, module.syntax.span(violation.node)


def _with(finding: Finding, fixes: dict[tuple[str, Span], Fix | str]) -> Finding:
    found = fixes.get((finding.code, finding.span), "no repair is known for it")
    if isinstance(found, str):
        return dataclasses.replace(finding, unfixable=found)
    return dataclasses.replace(finding, fix=found)


def _fixed(text: str, module: Module, judged: list[Judged], plan: RepairPlan, confirm: bool) -> Fix | str:
    try:
        new_text = assure_text(text, module.filename, plan, contracts=module.contracts)
    except NotAssured as problem:
        return f"the repair that was tried does not hold: {problem}"
    certificate = _certify(module, judged, plan, new_text, confirm)
    return Fix(plan.message, plan.edits, certificate, plan.strategy)


def _certify(module: Module, judged: list[Judged], plan: RepairPlan, new_text: str, confirm: bool) -> Certificate:
    try:
        from accumlint.repair.confirm import certify
    except ImportError:
        return Certificate(needs_leaf=bool(plan.obligations), notes=plan.notes, suggestion=plan.suggestion)
    certificate: Certificate = certify(module, judged, plan, new_text, module.filename, confirm=confirm)
    return certificate
