"""What must hold of every repair that is shown: it parses, keeps the comments, raises nothing, repairs what it says."""

from __future__ import annotations

import io
import tokenize
from collections import Counter
from fractions import Fraction
from typing import TYPE_CHECKING

from accumlint.repair.rewrite import apply_edits

if TYPE_CHECKING:
    from accumlint.contract.judge import Judged
    from accumlint.contract.verdict import Clause
    from accumlint.reading.contracts import LossContract
    from accumlint.repair.plan import RepairPlan
    from accumlint.semantics.trace import Snapshot
    from accumlint.source.text import SourceText

OPT_IN = frozenset({"UNPROVEN_WEIGHT", "BATCH_NORM", "BATCH_COUPLED", "LOGGED_SCALE"})


class NotAssured(Exception):
    """Why a repair that was planned is not shown, in one line."""


def assure(source: SourceText, plan: RepairPlan) -> str:
    """The repaired text, or NotAssured."""
    return assure_text(source.text, source.filename, plan)


def assure_text(
    text: str, filename: str, plan: RepairPlan, *, equal: bool = False, contracts: tuple[LossContract, ...] = ()
) -> str:
    """The repaired text; with `equal` the microbatches must be proved to count equally."""
    from accumlint.contract.judge import judge_regions
    from accumlint.reading.read import ReadError, read_module

    _check_edits(plan)
    new = apply_edits(text, plan.edits)
    if new == text:
        raise NotAssured("it changes nothing")
    try:
        after = judge_regions(read_module(new, filename, contracts=contracts))
        before = judge_regions(read_module(text, filename, contracts=contracts))
    except ReadError as error:
        raise NotAssured(f"it does not parse: {error.message}") from None
    lost = comments(text) - comments(new)
    if lost:
        raise NotAssured(f"a comment would be lost: {next(iter(lost))}")
    _check_findings(plan, before, after, OPT_IN - {"UNPROVEN_WEIGHT"} if equal else OPT_IN)
    _check_clips(plan, after)
    if plan.obligations:
        _check_weights(plan, after)
    return new


def _check_edits(plan: RepairPlan) -> None:
    last = (0, 0)
    for edit in plan.edits:
        if (edit.span.line, edit.span.column) < last:
            raise NotAssured("its edits overlap")
        last = (edit.span.end_line, edit.span.end_column)


def comments(text: str) -> Counter[str]:
    """The comments of a text as a multiset."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text, newline="").readline))
    except (tokenize.TokenError, IndentationError, SyntaxError):
        raise NotAssured("it cannot be cut into tokens") from None
    return Counter(token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT)


def _check_findings(plan: RepairPlan, before: list[Judged], after: list[Judged], optional: frozenset[str]) -> None:
    name = plan.region.name
    wanted = {violation.clause for violation in plan.violations}
    old, new = _clauses(before), _clauses(after)
    left = new.get(name, Counter()).keys() & wanted
    if left:
        raise NotAssured(f"it leaves this: {next(iter(left)).value}")
    for region, found in new.items():
        raised = Counter({c: n for c, n in found.items() if c.name not in optional}) - old.get(region, Counter())
        if raised:
            raise NotAssured(f"it would raise this: {next(iter(raised)).value}")
    silent = {j.result.region.name for j in before if j.abstention is not None}
    for each in after:
        if each.abstention is not None and each.result.region.name not in silent:
            raise NotAssured(f"the repaired loop cannot be analysed: {each.abstention.reason}")
    if name not in {j.result.region.name for j in after}:
        raise NotAssured("the repaired loop is not found again")


def _check_clips(plan: RepairPlan, after: list[Judged]) -> None:
    """A clip sees exactly the gradient that the step uses."""
    from accumlint.contract.windows import cut_windows
    from accumlint.semantics.trace import CLIP

    for each in after:
        if each.result.region.name != plan.region.name:
            continue
        for trace in each.result.default:
            for store in trace.stores:
                for window in cut_windows(trace, store):
                    for event in window.events if window.step is not None else ():
                        if event.kind == CLIP and _numbers(event.gradient) != _numbers(window.gradient):
                            raise NotAssured("the clip would see another gradient than the step")


def _numbers(gradient: Snapshot) -> dict[object, object]:
    return {key: number.at for key, number in gradient.items()}


def _clauses(judged: list[Judged]) -> dict[str, Counter[Clause]]:
    found: dict[str, Counter[Clause]] = {}
    for each in judged:
        found.setdefault(each.result.region.name, Counter()).update(v.clause for v in each.violations)
    return found


def _check_weights(plan: RepairPlan, after: list[Judged]) -> None:
    """Every window of the repaired loop gives every target the weight 1 / sum(n)."""
    from accumlint.contract.weights import weigh
    from accumlint.contract.windows import cut_windows

    seen = False
    for each in after:
        if each.result.region.name != plan.region.name:
            continue
        for trace in each.result.default:
            for store in trace.stores:
                for window in cut_windows(trace, store):
                    for weighting in weigh(trace, window) if window.step is not None else ():
                        summed = trace.world.constant if trace.sums_ranks and trace.world is not None else Fraction(1)
                        right = (weighting.factor or Fraction(0)) * summed == 1 or plan.factored
                        if weighting.shape != "right" or not right:
                            raise NotAssured("the interpreter does not find every target weighted by 1 / their number")
                        seen = True
    if not seen:
        raise NotAssured("the interpreter does not see its weights")
