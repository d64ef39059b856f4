"""From a repaired text to its certificate: read it again, prove it, execute it, check its leaves.

    certificate = certify(module, judged, plan.obligations, new_text, "train.py", confirm=True)
    certificate.applicability        # Applicability.SAFE, or what is missing

Nothing of the planner is believed: the text is read and interpreted from the start, and only what changed in the traces
is judged. The same input gives the same certificate.
"""

from __future__ import annotations

import atexit
import importlib.util
import math
import os
import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

from accumlint.contract.judge import Judged, judge_regions
from accumlint.contract.verdict import Clause
from accumlint.harness.runner import Runner
from accumlint.reading.program import Module
from accumlint.reading.read import ReadError, read_module
from accumlint.repair.certificate import Certificate, Check, Measure
from accumlint.repair.confirm_ranks import confirm_on_ranks
from accumlint.repair.declared import undeclared
from accumlint.repair.derive import derive, mispaired, other_count
from accumlint.repair.leaves import LeafProblem, check_leaves
from accumlint.repair.prove import Expectation, Proof, prove
from accumlint.repair.prove_weights import original_factors, sum_weight
from accumlint.repair.prove_windows import cut_segments
from accumlint.repair.ranks import text_has_ranks
from accumlint.repair.slices import LIMIT, Executed, execute
from accumlint.semantics.run import Result
from accumlint.semantics.trace import STEP, render

NO_TORCH = "torch is not installed: pip install 'accumlint[torch]'"
NOT_ASKED = "not executed: --confirm executes it with torch"
NO_DIFFERENCE = "not executed: the original equals the full batch on the drawn data as well"
OF_RANKS = frozenset({Clause.SYNC, Clause.WORLD_SIZE})
"""Findings that show on several ranks only."""
CLOCKS = frozenset({Clause.SCHEDULE, Clause.LOGGED_SCALE, Clause.SCALER}) | OF_RANKS
"""Findings that leave the gradient of one process as it should be: there, executing the original shows nothing."""
SAME_GRADIENT = CLOCKS | {Clause.OFF_BY_ONE, Clause.LEFTOVER}
"""Windows are compared as each loop cuts them, and what no step uses is compared with nothing."""
PLACE = re.compile(r"@\d+\b")
EXPECTED = frozenset({Clause.BATCH_NORM, Clause.UNPROVEN_WEIGHT})

_runners: dict[int, Runner] = {}  # by process: a forked one must not talk to its parent's


def shared_runner() -> Runner:
    """The one worker of this process: torch is started once, for all repairs of all files."""
    process = os.getpid()
    if process not in _runners:
        _runners[process] = Runner(timeout=20.0)
        atexit.register(_runners[process].close)
    return _runners[process]


def certify(
    module_before: Module,
    judged_before: Sequence[Judged],
    plan: Any,
    new_text: str,
    filename: str,
    *,
    confirm: bool,
    runner: Runner | None = None,
) -> Certificate:
    """What is established about `new_text` as a repair of `module_before`.

    `plan` has `obligations` (see `leaves.py`), or is a sequence of them. Never raises for a bad text: what is missing
    is said in the certificate.
    """
    obligations = tuple(getattr(plan, "obligations", plan))
    try:
        module = read_module(new_text, filename, contracts=module_before.contracts)
    except ReadError as error:
        return Certificate(missing=(f"the repaired text does not parse: {error.message}",))
    judged = judge_regions(module, thorough=True)
    changed, problem = _changed(judged_before, judged)
    if problem:
        return Certificate(missing=(problem,))
    declared = sum(bool(each.declared) for each in obligations)
    counted = not obligations and _counts(new for _, new in changed)
    expectation = Expectation(
        tuple(old.result for old, _ in changed if old),
        declared,
        equal=not obligations and not counted,
        counting=counted and all(old is not None and _counts([old]) for old, _ in changed),
        distributed=text_has_ranks("\n".join(module.lines)),
        crossing=_crosses(changed),
        undefined=not obligations and _divides_by_zero(judged_before),
        summed=None if obligations else _sum_weight(changed),
    )
    results = [new.result for _, new in changed]
    proof = prove(results, expectation)
    news = _new_findings(changed)
    certificate = _Builder(proof, news, results, bool(obligations), expectation.distributed)
    certificate.notes = tuple(getattr(plan, "notes", ()))
    certificate.hazard = str(getattr(plan, "hazard", ""))
    certificate.suggestion = str(getattr(plan, "suggestion", ""))
    if confirm:
        certificate.torch(changed, expectation, runner)
        certificate.ranks(module_before, module, changed, expectation)
        certificate.leaves(module_before, module, obligations, runner)
    else:
        certificate.missing.append(NOT_ASKED)
        certificate.declare(module, obligations)
    return certificate.build()


def certify_derived(
    before_text: str, new_text: str, filename: str, *, confirm: bool = True, runner: Runner | None = None
) -> Certificate:
    """The same for a text whose plan is not known: the obligations are derived from both texts."""
    before = read_module(before_text, filename)
    try:
        after = read_module(new_text, filename)
    except ReadError as error:
        return Certificate(missing=(f"the repaired text does not parse: {error.message}",))
    judged = judge_regions(before, thorough=True)
    changed, problem = _changed(judged, judge_regions(after, thorough=True))
    if problem:
        return Certificate(missing=(problem,))
    obligations = derive(before, [old for old, _ in changed if old], after, [new for _, new in changed])
    return certify(before, judged, obligations, new_text, filename, confirm=confirm, runner=runner)


def _changed(before: Iterable[Judged], after: Iterable[Judged]) -> tuple[list[tuple[Judged | None, Judged]], str]:
    """The regions whose traces the repair changed, each with what it was."""
    old = list(before)
    pairs: list[tuple[Judged | None, Judged]] = []
    for new in after:
        was = next((each for each in old if each.result.region.name == new.result.region.name), None)
        if was is not None:
            old.remove(was)
        if was is None or _printed(was.result) != _printed(new.result):
            pairs.append((was, new))
    if any(judged.abstention is None and judged.violations for judged in old):
        return [], "a loop of the original is not read in the repaired text"
    return pairs, "" if pairs else "the repair changes nothing that the interpreter sees"


def _printed(result: Result) -> list[str]:
    """The traces as text; what is named by its place in the file is named by its order, as a repair moves places."""
    places: dict[str, str] = {}

    def numbered(place: re.Match[str]) -> str:
        return places.setdefault(place[0], f"@{len(places)}")

    traces = (*result.default, *(t for traces in result.flipped for t in traces))
    return [PLACE.sub(numbered, render(trace)) for trace in traces]


def _new_findings(changed: Iterable[tuple[Judged | None, Judged]]) -> str:
    for old, new in changed:
        before = {violation.clause for violation in old.violations} if old is not None else set()
        for violation in new.violations:
            if violation.clause not in EXPECTED and (violation.clause not in before or violation.clause not in CLOCKS):
                return f"the repaired loop {violation.clause.value}"
    return ""


class _Builder:
    """Collects what was discharged, what is missing and the numbers behind it."""

    def __init__(self, proof: Proof, news: str, results: Sequence[Result], needs_leaf: bool, needs_ranks: bool) -> None:
        self.proof = proof
        self.results = results
        self.discharged: set[Check] = set()
        self.missing: list[str] = []
        self.measures: list[Measure] = []
        self.assumptions: dict[str, None] = dict.fromkeys(proof.assumptions)
        self.disagreement = ""
        self.needs_leaf = needs_leaf
        self.needs_ranks = needs_ranks
        self.notes: tuple[str, ...] = ()
        self.hazard = ""
        self.suggestion = ""
        if proof.holds and not news:
            self.discharged.add(Check.PROVED)
        else:
            self.missing.append(f"not proved: {proof.reason or news}")

    def build(self) -> Certificate:
        return Certificate(
            frozenset(self.discharged),
            self.needs_leaf,
            self.needs_ranks,
            tuple(self.assumptions),
            (*self.missing, self.hazard) if self.hazard else tuple(self.missing),
            tuple(self.measures),
            self.disagreement,
            self.notes,
            self.hazard,
            self.suggestion,
        )

    # ------------------------------------------------------------------------------------------- execution

    def torch(
        self, changed: Sequence[tuple[Judged | None, Judged]], expectation: Expectation, runner: Runner | None
    ) -> None:
        if importlib.util.find_spec("torch") is None:
            self.missing.append(NO_TORCH)
            return
        runner = runner or shared_runner()
        runs = [run for old, new in changed for run in _execute(old, new, runner, expectation)]
        bad = next((run for run in runs if not run.holds), None)
        if not runs or bad is not None:
            self._not_equal(bad)
            return
        originals = [run.original_error for run in runs if run.original_error is not None]
        differs = max(originals, default=None)
        worst = max(runs, key=lambda run: run.error)
        same = differs is not None and differs <= 1e-9
        if same and not expectation.distributed and not _only(changed, SAME_GRADIENT):
            self.missing.append(NO_DIFFERENCE)
            return
        self.discharged.add(Check.EXECUTED)
        if not self.needs_leaf and not expectation.equal:
            self.assumptions["the count that the loop already divides by is the loss's own"] = None
        self.measures.append(
            Measure(
                Check.EXECUTED, worst.error, LIMIT, differs, worst.counts, worst.seed, f"torch {runner.torch_version}"
            )
        )

    def ranks(
        self,
        before: Module,
        after: Module,
        changed: Sequence[tuple[Judged | None, Judged]],
        expectation: Expectation,
    ) -> None:
        """On several ranks as well, if the loop runs on them and holds on one."""
        if not self.needs_ranks or Check.EXECUTED not in self.discharged:
            return
        found = confirm_on_ranks(before, after, changed, equal=expectation.equal)
        if found.measure is not None:
            errors = [m.original_error for m in (*self.measures, found.measure) if m.original_error is not None]
            if errors and max(errors) <= 1e-9 and not _only(changed, SAME_GRADIENT - OF_RANKS):
                self.missing.append(NO_DIFFERENCE)
                self.discharged.discard(Check.EXECUTED)
                return
            self.discharged.add(Check.ON_RANKS)
            self.measures.append(found.measure)
            return
        self.missing.append(f"not executed on ranks: {found.missing}")
        if found.differs and Check.PROVED in self.discharged:
            self.disagreement = f"the interpreter proves the update, two ranks do not confirm it: {found.missing}"

    def _not_equal(self, bad: Executed | None) -> None:
        if bad is None:
            self.missing.append("not executed: no path was run")
            return
        said = bad.problem or f"relative L2 error {max(bad.error, bad.worst):.1e}"
        self.missing.append(f"not executed: {said}")
        computed = not bad.problem or "steps for" in bad.problem
        if Check.PROVED in self.discharged and computed:
            self.disagreement = f"the interpreter proves the update, torch does not confirm it: {said}"

    # ------------------------------------------------------------------------------------------- the leaves

    def declare(self, after: Module, obligations: Sequence[Any]) -> None:
        """Counts that contracts declare: what they say is assumed, and that the text holds them is checked."""
        declared = [each for each in obligations if each.declared]
        if len(declared) < len(obligations):
            self.missing.append("not leaf-checked: --confirm checks on data what the loss divides by")
        if not declared:
            return
        self.assumptions.update(dict.fromkeys(f"declared: {each.declared}" for each in declared))
        if problem := undeclared(after, self.results, declared):
            self.missing.append(f"not declared: {problem}")
            return
        self.discharged.add(Check.DECLARED)
        self.missing.append("not leaf-checked: what the loss divides by is declared, not seen")

    def leaves(
        self,
        before: Module,
        after: Module,
        obligations: Sequence[Any],
        runner: Runner | None,
    ) -> None:
        visible = [each for each in obligations if not each.declared]
        if not obligations:
            return
        if problem := other_count(before, after, obligations) or mispaired(after, obligations):
            self.missing.append(f"not leaf-checked: {problem}")
            return
        if len(visible) < len(obligations):
            self.declare(after, [each for each in obligations if each.declared])
            return
        if importlib.util.find_spec("torch") is None:
            return
        runner = runner or shared_runner()
        found = check_leaves(before, after, visible, runner)
        if isinstance(found, LeafProblem):
            self.missing.append(f"not leaf-checked: {found.reason}")
            if found.wrong and Check.PROVED in self.discharged:
                self.disagreement = (
                    f"the count is planned as that of the loss, torch does not confirm it: {found.reason}"
                )
            return
        self.discharged.add(Check.LEAF_CHECKED)
        self.assumptions.update(dict.fromkeys(found.assumptions))
        for report in found.reports:
            counts = tuple((int(a), int(b)) for a, b in report.counts[:3])
            self.measures.append(
                Measure(Check.LEAF_CHECKED, report.error, report.limit, None, counts, report.seeds[0], report.engine)
            )


def _divides_by_zero(before: Iterable[Judged]) -> bool:
    """Whether a coefficient of the original is undefined somewhere, as it stands."""
    return any(
        value is None
        for old in before
        for trace in old.result.default
        for event in trace.events
        for coefficient in event.gradient.values()
        for value in coefficient.at
    )


def _crosses(changed: Iterable[tuple[Judged | None, Judged]]) -> bool:
    """Whether windows of the original run on over the ends of passes although nothing is reported of that."""
    before = [old for old, _ in changed if old is not None]
    return any(
        segment.crosses_end
        for old in before
        for trace in old.result.default
        for store in trace.stores
        for segment in cut_segments(trace, store)
    ) and not any(violation.clause is Clause.LEFTOVER for old in before for violation in old.violations)


def _counts(judged: Iterable[Judged]) -> bool:
    """Whether a loop divides by counts of its own."""
    return any(
        coefficient.depends_on_counts
        for each in judged
        for trace in each.result.default
        for event in trace.events
        if event.kind == STEP
        for coefficient in event.gradient.values()
    )


def _sum_weight(changed: Iterable[tuple[Judged | None, Judged]]) -> Fraction | None:
    """What a target weighs if every objective was a plain sum and still is the same one."""
    found = {
        sum_weight(judged.result.default) if judged is not None and not judged.result.stopped else None
        for pair in changed
        for judged in pair
    }
    return found.pop() if len(found) == 1 else None


def _only(changed: Iterable[tuple[Judged | None, Judged]], expected: frozenset[Clause]) -> bool:
    clauses = {violation.clause for old, _ in changed if old is not None for violation in old.violations}
    return bool(clauses) and clauses <= expected


def _execute(old: Judged | None, new: Judged, runner: Runner, expectation: Expectation) -> list[Executed]:
    traces = new.result.default
    was = old.result.default if old is not None and not old.result.stopped else []
    factors = [Fraction(1) if factor is None else factor for factor in original_factors(was)]
    runs: list[Executed] = []
    for place, trace in enumerate(traces):
        if trace.stopped or trace.exempt or not trace.events:
            return [Executed(math.inf, math.inf, None, (), 0, f"not analysed: {trace.stopped or trace.exempt}")]
        runs += execute(
            trace,
            was[place] if place < len(was) else None,
            runner,
            factors,
            equal=expectation.equal and expectation.summed is None,
            empty=not expectation.undefined,
            summed=expectation.summed,
        )
    for flipped in new.result.flipped:
        for trace in flipped[:1]:
            if not trace.stopped and not trace.exempt and any(e.kind == "step" for e in trace.events):
                runs += execute(
                    trace,
                    None,
                    runner,
                    factors,
                    equal=expectation.equal and expectation.summed is None,
                    empty=not expectation.undefined,
                    summed=expectation.summed,
                )[:1]
    return runs


__all__ = ["NO_TORCH", "certify", "shared_runner"]
