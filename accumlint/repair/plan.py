"""From the violations of a loop to one repair of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from accumlint.apis.language import Count
from accumlint.contract.judge import Judged
from accumlint.contract.verdict import Clause, Violation
from accumlint.findings import Edit
from accumlint.reading.program import Module
from accumlint.reading.read import on_concrete_tree
from accumlint.repair.boundary import TRAINER_BACKWARD, read_window
from accumlint.repair.counts import Leaf
from accumlint.repair.deferred import plan_weights
from accumlint.repair.distributed import multiply_by_ranks
from accumlint.repair.driven import is_driven, plan_driven, raw_sums
from accumlint.repair.engines import is_engine, left_behind
from accumlint.repair.flush import flush
from accumlint.repair.hidden import notes_of
from accumlint.repair.motion import divide_by_window, divide_once, divide_too_little, move_parts
from accumlint.repair.names import Names
from accumlint.repair.precount import FP16, plan_precount
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.repair.terms import OWN, term_sites
from accumlint.semantics.regions import Region
from accumlint.semantics.trace import STEP
from accumlint.semantics.values import Site

OTHER_READING = "libcst reads this file otherwise than Python itself"

WEIGHTS = frozenset({Clause.TARGET_WEIGHT, Clause.BATCH_WEIGHT, Clause.PARTIAL_DIVISOR, Clause.UNPROVEN_WEIGHT})
ORDER = frozenset({Clause.CLIP_COUNT, Clause.CLIP_SCALED, Clause.SCHEDULE, Clause.SCALER, Clause.SYNC})
"""What only stands at the wrong place: it can be moved beside weights that cannot be repaired."""
NEVER = {
    Clause.BATCH_NORM: "BatchNorm in train mode: no weighting makes accumulation equal",
    Clause.BATCH_COUPLED: "the loss couples the examples of a batch: no weighting makes it right",
    Clause.LOGGED_SCALE: "what should be logged is the author's choice",
}
ORDER_ONLY = "it moves what stands at the wrong place, and the loop is still no full-batch update"
OPTIONAL = "the other findings of the loop are repaired first"
AUTO, DEFERRED, PRECOUNT = "auto", "deferred", "precount"


@dataclass(frozen=True, slots=True)
class Obligation:
    """One inserted count, to be checked: `mean_text` * `count_text` must be `sum_text`."""

    site: Site
    kind: Count
    mean_text: str
    sum_text: str
    count_text: str
    arguments: dict[str, str] = field(default_factory=dict)
    declared: str = ""


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """All findings of one loop in one set of edits: of the original text, disjoint, sorted."""

    region: Region
    violations: tuple[Violation, ...]
    edits: tuple[Edit, ...]
    obligations: tuple[Obligation, ...]
    message: str
    strategy: str = DEFERRED
    notes: tuple[str, ...] = ()
    hazard: str = ""  # why it is not to be applied unseen, whatever its checks say
    factored: bool = False  # the terms of its loss keep the factors that they had, which the proof looks at
    suggestion: str = ""  # why it is only shown


@dataclass(frozen=True, slots=True)
class Unrepairable:
    """Why a finding has no repair, in one line."""

    violation: Violation
    reason: str


def plan_repairs(module: Module, judged: Iterable[Judged], strategy: str = AUTO) -> list[RepairPlan]:
    """One plan for each loop that can be repaired; only plans that survive `assure`."""
    return [plan for plan in plan_all(module, judged, strategy) if isinstance(plan, RepairPlan)]


def plan_all(module: Module, judged: Iterable[Judged], strategy: str = AUTO) -> list[RepairPlan | Unrepairable]:
    """The same with the reasons for what cannot be repaired."""
    found: list[RepairPlan | Unrepairable] = []
    judged = [each for each in judged if each.violations]
    if not judged:
        return []
    concrete = on_concrete_tree(module)
    if concrete is None:
        return [Unrepairable(v, OTHER_READING) for each in judged for v in each.violations]
    try:
        layout = Layout(concrete)
    except (Unplannable, RecursionError):
        return [Unrepairable(v, "the file is too deep for the rewriter") for each in judged for v in each.violations]
    for each in judged:
        wanted = [v for v in each.violations if v.clause not in NEVER]
        found += [Unrepairable(v, NEVER[v.clause]) for v in each.violations if v.clause in NEVER]
        firm = [v for v in wanted if v.clause is not Clause.UNPROVEN_WEIGHT]
        found += [Unrepairable(v, OPTIONAL) for v in wanted if firm and v not in firm]
        wanted = firm or wanted
        if not wanted:
            continue
        plan = _first_assured(layout, each, wanted, strategy)
        if isinstance(plan, RepairPlan):
            found.append(plan)
            continue
        order = [v for v in wanted if v.clause in ORDER]
        rest = _first_assured(layout, each, order, strategy) if 0 < len(order) < len(wanted) else ""
        if isinstance(rest, RepairPlan):  # what stands at the wrong place moves, whatever the loss divides by
            found.append(replace(rest, suggestion=ORDER_ONLY))
            wanted = [v for v in wanted if v not in order]
        found += [Unrepairable(v, plan) for v in wanted]
    return found


def _first_assured(layout: Layout, judged: Judged, wanted: list[Violation], strategy: str) -> RepairPlan | str:
    """The first plan for a region that holds, or why there is none."""
    from accumlint.repair.assure import NotAssured, assure_text

    reason, module = "", layout.module
    for candidate in candidates(layout, judged, wanted, strategy):
        if isinstance(candidate, str):
            reason = reason or candidate
            continue
        plan, equal = candidate
        try:
            assure_text(layout.text, module.filename, plan, equal=equal, contracts=module.contracts)
        except NotAssured as problem:
            reason = reason or f"the repair that was tried does not hold: {problem}"
            continue
        return plan
    return reason or "no repair is known for it"


def candidates(
    layout: Layout, judged: Judged, wanted: list[Violation], strategy: str
) -> Iterator[tuple[RepairPlan, bool] | str]:
    """Plans for one region, the smallest first, or why one could not be written.

    Beside a plan: whether it holds only where the counts are proved equal.
    """
    clauses = {v.clause for v in wanted}
    events = judged.result.default[0].events
    scaled = any(e.form is not None and e.form.scaler is not None for e in events)
    engine = judged.result.region.kind != "returned" and all(e.gated for e in events if e.kind == STEP)
    counts = ""
    if strategy == AUTO and len({e.store for e in events if e.kind == STEP}) > 1:
        strategy = PRECOUNT  # the parameters of several optimizers may overlap: gradients are not divided one by one
    several = any(len(term_sites(event)) > 1 for event in events)
    hazard = FP16 if scaled and strategy == DEFERRED else ""
    for weight in _recipes(clauses, layout, judged):
        for way in _ways(weight, scaled or (engine and "deepspeed" in layout.text), strategy, several):
            try:
                plan = _plan(layout, judged, wanted, weight, way)
            except Unplannable as problem:
                if several and strategy == AUTO and way == DEFERRED and str(problem).startswith(f"{OWN}: `"):
                    counts = f"{problem}; no pre-count, as "  # which those can have
                    continue
                yield f"{counts}{problem}"
                if way == PRECOUNT and scaled:
                    hazard = f"{FP16}; no pre-count, as {problem}"
                continue
            if plan is None:
                yield "no repair is known for it"
                continue
            if hazard and plan.obligations:
                plan = replace(plan, hazard=hazard)
            yield plan, weight == "steps, proved equal"


def _plan(layout: Layout, judged: Judged, wanted: list[Violation], weight: str, way: str) -> RepairPlan | None:
    clauses = {v.clause for v in wanted}
    draft, names = Draft(layout), Names(layout.text)
    window = read_window(layout, judged.result.default[0])
    misplaced = {layout.statement(v.node).node for v in wanted if v.clause is Clause.CLEARED_INSIDE}
    window.clears = [clear for clear in window.clears if clear.node not in misplaced]
    leaf = None
    if Clause.DIVIDED_TWICE in clauses and weight != "count":  # a count takes the place of every division by steps
        divide_once(window, wanted, draft)
    if weight == "window":
        divide_by_window(window, draft)
    if weight.startswith("steps"):
        divide_too_little(window, wanted, draft)
    elif weight == "count":
        if Clause.STEP_COUNT in clauses:
            raise Unplannable("it needs other weights and another place for its step")
        driven = is_driven(window)
        if driven and way == PRECOUNT:
            raise Unplannable("its window cannot be collected: the framework hands over one batch at a time")
        recipe = plan_driven if driven else plan_precount if way == PRECOUNT else plan_weights
        leaf = recipe(window, draft, names)
    if Clause.WORLD_SIZE in clauses and weight != "count":  # which sums its count over the ranks itself
        if any(v.clause is Clause.WORLD_SIZE and v.detail == "local" for v in wanted):
            raise Unplannable("its count is that of one rank")
        multiply_by_ranks(window, draft)
    move_parts(window, wanted, draft)
    if Clause.LEFTOVER in clauses:
        flush(window, wanted, draft)
    edits = draft.edits()
    if not edits:
        return None
    obligations = () if leaf is None else _obligations(leaf)
    message = _message(clauses, leaf, way)
    notes = _notes(leaf, way)
    hazard = left_behind(window) if leaf is not None and is_engine(window) else ""
    if leaf is not None and is_driven(window):
        hazard, note = raw_sums(window)
        notes = (*notes, note) if note else notes
    factored = leaf is not None and leaf.factored
    return RepairPlan(judged.result.region, tuple(wanted), edits, obligations, message, way, notes, hazard, factored)


def _ways(weight: str, ahead: bool, strategy: str, several: bool) -> tuple[str, ...]:
    """The strategies to try: on its own the tool defers, but not where fp16 would overflow if it can count before, nor
    where an engine keeps the gradients. Of several terms only those with one count can be deferred."""
    if weight != "count" or strategy == DEFERRED:
        return (DEFERRED,)
    if strategy == PRECOUNT:
        return (PRECOUNT,)
    return (PRECOUNT, DEFERRED) if ahead else (DEFERRED, PRECOUNT) if several else (DEFERRED,)


def _recipes(clauses: set[Clause], layout: Layout, judged: Judged) -> tuple[str, ...]:
    if clauses & WEIGHTS:
        known = TRAINER_BACKWARD in layout.text and clauses & WEIGHTS == {Clause.PARTIAL_DIVISOR}
        return ("window", "count") if known else ("count",)
    if Clause.NO_DIVISION in clauses:
        return ("steps, proved equal", "count") if _counts_equal(layout, judged) else ("count", "steps")
    return ("", "count")


def _counts_equal(layout: Layout, judged: Judged) -> bool:
    """Whether the microbatches of the loop provably count the same."""
    from accumlint.contract.evidence import Spread, judge_counts, read_file_facts

    trace, facts = judged.result.default[0], read_file_facts(layout.module)
    microbatches = tuple(range(len(trace.counts)))
    sites = {site for event in trace.events if event.form is not None for site, _ in event.form.terms}
    return bool(sites) and all(judge_counts(site, trace, microbatches, facts).spread is Spread.EQUAL for site in sites)


def _obligations(leaf: Leaf) -> tuple[Obligation, ...]:
    return tuple(
        Obligation(each.site, each.count, each.mean_text, each.sum_text, count, each.arguments, each.declared)
        for each in (leaf, *leaf.more)
        for count in each.counted or [each.count_text]
    )


def _message(clauses: set[Clause], leaf: Leaf | None, way: str) -> str:
    if leaf is not None and way == PRECOUNT:
        return "Weight the microbatches by their valid targets: collect the window, count, divide each sum by the total"
    if leaf is not None:
        return "Weight the microbatches by their valid targets: sum, count, divide once at the boundary"
    if Clause.NO_DIVISION in clauses:
        return "Divide the loss by the number of accumulation steps"
    if Clause.PARTIAL_DIVISOR in clauses:
        return "Divide the loss by the number of microbatches that the window has"
    if Clause.DIVIDED_TWICE in clauses:
        return "Divide once"
    if Clause.WORLD_SIZE in clauses:
        return "Multiply by the number of ranks, which the average over them divides by"
    if clauses == {Clause.SYNC}:
        return "Synchronise the ranks on the last microbatch of the window"
    if Clause.LEFTOVER in clauses and len(clauses) == 1:
        return "Step on the last partial window as well"
    return "Clip, step and clear once a window, in this order"


def _notes(leaf: Leaf | None, way: str) -> tuple[str, ...]:
    if leaf is None:
        return ()
    held = ("the batches of a window are held in memory together",) if way == PRECOUNT else ()
    return (*notes_of(leaf), *held)
