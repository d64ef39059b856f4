"""The clauses of the contract, read off the traces of one region: one function a clause."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise

from accumlint.contract.evidence import FileFacts, Spread, judge_counts
from accumlint.contract.exempt import is_summed_on_purpose
from accumlint.contract.verdict import Clause, Confidence, Evidence, Violation
from accumlint.contract.weights import Weighting, degree, is_repeated, literal_degree, weigh
from accumlint.contract.windows import Window, cut_windows, is_shared
from accumlint.reading import ir
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLEAR, CLIP, STEP, UNSCALE, UPDATE, Event, Trace
from accumlint.semantics.values import Division

_SPREAD_CLAUSES = {
    Spread.TARGETS: Clause.TARGET_WEIGHT,
    Spread.BATCHES: Clause.BATCH_WEIGHT,
    Spread.UNKNOWN: Clause.UNPROVEN_WEIGHT,
}


@dataclass(slots=True)
class Case:
    """One optimizer's windows on one path."""

    traces: Sequence[Trace]
    store: str
    facts: FileFacts
    trace: Trace = field(init=False)
    windows: list[Window] = field(init=False)

    def __post_init__(self) -> None:
        self.trace = self.traces[0]
        self.windows = _own_windows(self.trace, self.store)

    @property
    def other(self) -> Trace | None:
        """The path with another number of steps; it is run when it is asked for."""
        return self.traces[1] if len(self.traces) > 1 and not self.traces[1].stopped else None

    @property
    def stepped(self) -> list[Window]:
        return [window for window in self.windows if window.step is not None and window.size]

    @property
    def full(self) -> int:
        """How many microbatches a whole window has: the most usual size above one, else the largest."""
        return usual_size(self.windows, self.trace.steps)

    @property
    def accumulates(self) -> bool:
        return self.full > 1

    def make(self, clause: Clause, node: ir.NodeId, of: Window | None = None, **more: object) -> Violation:
        """A violation with what every message may use."""
        counts: tuple[Fraction, ...] = ()
        if of is not None:
            counts = tuple(self.trace.counts[k].at[0] or Fraction(0) for k in of.microbatches)
        fields: dict[str, object] = {
            "counts": counts,
            "window": of.size if of is not None else 0,
            "steps": self.trace.steps or (self.full if self.full > 1 else None),
            "divisor": self.trace.steps_text,
            "assumptions": tuple(self.trace.assumptions),
            "confidence": self._confidence(),
        }
        return Violation(clause, node, **(fields | more))  # type: ignore[arg-type]

    def _confidence(self) -> Confidence:
        if self.trace.guessed:
            return Confidence.GUESSED
        return Confidence.ASSUMED if self.trace.assumptions or self.trace.decisions else Confidence.PROVED


def _own_windows(trace: Trace, store: str) -> list[Window]:
    return [window for window in cut_windows(trace, store) if not is_shared(trace, window)]


def usual_size(windows: list[Window], steps: int | None) -> int:
    """The size of a whole window: K where it occurs, else the most usual size above one."""
    sizes = [window.size for window in windows if window.step is not None and window.size and not window.crosses_end]
    if steps is not None and steps in sizes:
        return steps
    larger = Counter(size for size in sizes if size > 1)
    return larger.most_common(1)[0][0] if larger else max(sizes, default=0)


# ----------------------------------------------------------------------------------------------------- weights


def check_weights(case: Case) -> Iterator[Violation]:
    """Equal weights, no division, two divisions, the ranks, and the divisor of a partial window."""
    if not case.accumulates:
        return
    whole = [window for window in case.stepped if window.size == case.full and not window.crosses_end]
    if not whole:
        return
    for weighting in weigh(case.trace, whole[0]):
        if not is_repeated(whole[0], weighting.site):
            continue  # one loss of several in an iteration, each from data of its own: a sum over tasks
        yield from _judge_weighting(case, whole[0], weighting)
    yield from _judge_flush(case, whole[0])


def _judge_flush(case: Case, whole: Window) -> Iterator[Violation]:
    """A rest of the data that has backwards of its own: its means weigh equally too, or are divided by a whole K."""
    seen = {weighting.site.node for weighting in weigh(case.trace, whole)}
    for window in case.stepped:
        if not 1 < window.size < case.full or window.crosses_end or _is_first(case, window):
            continue
        for weighting in weigh(case.trace, window):
            backward = _backward_of(window, weighting)
            if weighting.site.node in seen or backward is None or weighting.shape != "equal":
                continue
            if not (weighting.site.separable and is_repeated(window, weighting.site)):
                continue
            if weighting.weight == Fraction(1, window.size):
                yield from _judge_equal(case, window, weighting, backward)
            elif weighting.weight == Fraction(1, case.full):
                yield from _judge_equal(case, window, weighting, backward)
                yield _partial(case, window, backward)
        return


def _judge_weighting(case: Case, window: Window, weighting: Weighting) -> Iterator[Violation]:
    backward = _backward_of(window, weighting)
    if backward is None or not weighting.site.separable:
        return
    if weighting.shape == "right":
        yield from _judge_ranks(case, window, weighting, backward)
        return
    if weighting.shape == "shared":
        yield from _judge_shared(case, window, weighting, backward)
        return
    if weighting.shape != "equal" or weighting.weight is None:
        return
    power = _power_of_steps(case, window, weighting)
    if power == 0 and weighting.known:
        if _means_to_accumulate(case, window) and not is_summed_on_purpose(case.trace, window, weighting.site):
            yield case.make(
                Clause.NO_DIVISION, backward.node, window, actual=Fraction(1), expected=Fraction(1, case.full)
            )
    elif power == 1:
        yield from _judge_equal(case, window, weighting, backward)
        yield from _judge_partial(case, weighting)
    elif power is not None and power > 1:
        yield from _judge_double(case, window, weighting, backward)


def _backward_of(window: Window, weighting: Weighting) -> Event | None:
    for event in window.backwards:
        if event.form is not None and any(site.node == weighting.site.node for site, _ in event.form.terms):
            return event
    return None


def _power_of_steps(case: Case, window: Window, weighting: Weighting) -> int | None:
    weight = weighting.weight
    if weight is None:
        return None
    power = literal_degree(abs(weight), window.size)
    if power is not None and bool(power) == (case.trace.steps_text in weighting.unknowns):
        return power  # 1 without K, or a bare power of K that was worked out from K: another K need not be tried
    if (trace := case.other) is not None:
        windows = _own_windows(trace, case.store)
        full = usual_size(windows, trace.steps)
        for other in windows:
            if other.step is None or other.crosses_end or other.size != full or full == window.size or full < 2:
                continue
            for candidate in weigh(trace, other):
                if candidate.site.node == weighting.site.node and candidate.weight is not None:
                    return degree(weight, window.size, candidate.weight, other.size)
    return power


def _means_to_accumulate(case: Case, window: Window) -> bool:
    """Whether the window is one of microbatches: K is named, or the data arrives batch by batch."""
    if case.trace.steps is not None:
        return True
    kinds = {kind for k in window.microbatches for kind in case.trace.lineages.get(k, ())}
    return bool(kinds) and any(division.divisor.unknowns for division in case.trace.divisions)


def _judge_equal(case: Case, window: Window, weighting: Weighting, backward: Event) -> Iterator[Violation]:
    judgement = judge_counts(weighting.site, case.trace, window.microbatches, case.facts, counted=weighting.counted)
    clause = _SPREAD_CLAUSES.get(judgement.spread)
    if clause is None or (judgement.spread is Spread.BATCHES and _is_coupled(backward)):
        return
    weight = weighting.weight or Fraction(1, case.full)
    yield case.make(
        clause,
        backward.node,
        window,
        weights=(weight,) * window.size,
        actual=weight,
        evidence=judgement.evidence,
        other=_last_division(backward),
        divisor=_divisor_text(case, backward),
    )


def _divisor_text(case: Case, backward: Event) -> str:
    """What the hand's division calls the number of steps: several names may hold it."""
    divisors = [division.divisor for division in _manual_divisions(backward)]
    named = [divisor.text for divisor in divisors if divisor.unknowns and divisor.as_int() == case.full]
    return named[-1] if len(named) == 1 else case.trace.steps_text


def _judge_shared(case: Case, window: Window, weighting: Weighting, backward: Event) -> Iterator[Violation]:
    """Means of microbatches, all divided by the count of the window: neither a mean of means nor one over targets."""
    evidence = case.facts.counted or case.facts.padding
    if weighting.known and weighting.counted and evidence is not None:
        yield case.make(Clause.TARGET_WEIGHT, backward.node, window, evidence=(evidence,), divisor="the window's count")


def _is_coupled(backward: Event) -> bool:
    """Whether another term of the loss compares the examples of a batch: weighing by batch size would not help."""
    return backward.form is not None and any(not site.separable for site, _ in backward.form.terms)


def _last_division(backward: Event) -> ir.NodeId | None:
    manual = _manual_divisions(backward)
    return manual[-1].node if manual else None


def _manual_divisions(backward: Event) -> list[Division]:
    if backward.form is None:
        return []
    return [division for division in backward.form.divisions if "framework: " not in division.divisor.text]


def _judge_double(case: Case, window: Window, weighting: Weighting, backward: Event) -> Iterator[Violation]:
    manual = _manual_divisions(backward)
    if not manual:
        return
    divisions = backward.form.divisions if backward.form is not None else ()
    framework = len(divisions) > len(manual)
    meant = [division for division in divisions if not division.weighs]
    if len(meant) < min(2, len(divisions)):
        return  # what is left is one division by the steps: a weight of 0.5 is no division by two steps
    manual = [division for division in manual if not division.weighs] or manual
    if any(division.divisor.text.startswith("unseen ") for division in divisions):
        return  # an Accelerator made elsewhere may have no number of steps: then the hand's division is the one
    yield case.make(
        Clause.DIVIDED_TWICE,
        manual[-1].node,
        window,
        actual=Fraction(1, case.full**2),
        expected=Fraction(1, case.full),
        times=2,
        other=backward.node if framework else manual[0].node,
        detail="framework" if framework else "by hand",
    )


def _judge_partial(case: Case, weighting: Weighting) -> Iterator[Violation]:
    """A short last window that steps with the divisor of a whole one."""
    for window in case.stepped:
        if window.size >= case.full or not window.at_end or window.crosses_end or _is_first(case, window):
            continue
        for other in weigh(case.trace, window):
            same_place = other.site.node == weighting.site.node
            if same_place and other.weight is not None and other.weight == weighting.weight:
                backward = _backward_of(window, other)
                if backward is not None:
                    yield _partial(case, window, backward)
                return


def _partial(case: Case, window: Window, backward: Event) -> Violation:
    return case.make(
        Clause.PARTIAL_DIVISOR,
        backward.node,
        window,
        actual=Fraction(window.size, case.full),
        expected=Fraction(1),
        other=window.step.node if window.step is not None else None,
    )


def _is_first(case: Case, window: Window) -> bool:
    return bool(case.windows) and case.windows[0] is window


def _judge_ranks(case: Case, window: Window, weighting: Weighting, backward: Event) -> Iterator[Violation]:
    world = case.trace.world
    if not weighting.reduced and case.trace.averaged and not case.trace.sums_ranks:
        yield from _judge_local_count(case, window, weighting, backward)
    if not weighting.reduced or world is None or weighting.factor is None:
        return
    ranks = world.constant
    wanted = Fraction(1, 1) if not case.trace.sums_ranks else 1 / ranks
    if weighting.factor == wanted / ranks:
        yield case.make(
            Clause.WORLD_SIZE, backward.node, window, actual=1 / ranks, expected=Fraction(1), detail="missing"
        )


def _judge_local_count(case: Case, window: Window, weighting: Weighting, backward: Event) -> Iterator[Violation]:
    """A rank divides by its own count: its valid targets weigh by how few they are."""
    if weighting.factor != 1 or not weighting.counted or not weighting.known or case.trace.reduced:
        return
    judgement = judge_counts(weighting.site, case.trace, window.microbatches, case.facts)
    evidence = judgement.evidence if judgement.spread is Spread.TARGETS else ()
    if case.facts.counted is not None:
        evidence = evidence or (case.facts.counted,)
    if evidence:
        yield case.make(Clause.WORLD_SIZE, backward.node, window, detail="local", evidence=evidence)


# --------------------------------------------------------------------------------------- clip, step, clear, clocks


def check_clips(case: Case) -> Iterator[Violation]:
    """A clip before the window is complete, and a clip of scaled gradients."""
    if not case.accumulates:
        return
    for window in case.windows:
        if window.size < 2:
            continue
        last = _last_backward(window)
        for node, events in _by_node(window, CLIP).items():
            early = [event for event in events if window.events.index(event) < last]
            if early:
                yield case.make(Clause.CLIP_COUNT, node, window, times=len(events), detail=events[0].detail)
            if any(event.scaled for event in events):
                yield case.make(Clause.CLIP_SCALED, node, window, times=len(events))


def _last_backward(window: Window) -> int:
    return max((place for place, event in enumerate(window.events) if event.kind == BACKWARD), default=-1)


def _by_node(window: Window, kind: str) -> dict[ir.NodeId, list[Event]]:
    found: dict[ir.NodeId, list[Event]] = {}
    for event in window.events:
        if event.kind == kind:
            found.setdefault(event.node, []).append(event)
    return found


def check_steps(case: Case) -> Iterator[Violation]:
    """A step on every microbatch of a loop that means to accumulate: it clears, or schedules, only at a boundary."""
    stepped = case.stepped
    if case.accumulates or len(stepped) < 3 or any(window.size > 1 for window in stepped):
        return
    clears = [event for event in case.trace.of_store(case.store) if event.kind == CLEAR and event.gradient]
    stale = [w for w in stepped if any(k not in w.microbatches for _, k in w.gradient)]
    period = _steps_between_clears(case)
    step = stepped[0].step
    if not clears or not stale or period < 2 or step is None:
        return
    yield case.make(Clause.STEP_COUNT, step.node, stepped[0], times=period, other=clears[0].node, window=period)
    for node, events in _clock_events(case).items():
        if len(events) >= len(stepped):
            yield case.make(Clause.SCALER, node, None, times=period, detail="update", window=period)


def _steps_between_clears(case: Case) -> int:
    """How many steps lie between two clears, if it is the same number each time; else 0."""
    periods: list[int] = []
    steps = 0
    for event in case.trace.of_store(case.store):
        if event.kind == STEP:
            steps += 1
        elif event.kind == CLEAR and event.gradient:
            periods.append(steps)
            steps = 0
    whole = periods[:-1] if len(periods) > 1 and periods[-1] < periods[0] else periods
    return whole[0] if len(set(whole)) == 1 else 0


def _clock_events(case: Case) -> dict[ir.NodeId, list[Event]]:
    found: dict[ir.NodeId, list[Event]] = {}
    for event in case.trace.of_store(case.store):
        if event.kind == UPDATE:
            found.setdefault(event.node, []).append(event)
    return found


def check_clears(case: Case) -> Iterator[Violation]:
    """Gradients cleared inside a window, or never."""
    if not case.accumulates:
        return
    for window in case.stepped:
        kept = {k for _, k in window.gradient}
        lost = [k for k in window.microbatches if k not in kept]
        if not lost or window.crosses_end:
            continue
        clear = _clear_that_lost(window, lost)
        if clear is not None:
            yield case.make(Clause.CLEARED_INSIDE, clear.node, window, lost=len(lost), other=_step_node(window))
            break
    stepped = case.stepped
    for before, window in pairwise(stepped):
        earlier = {k for w in stepped[: stepped.index(window)] for k in w.microbatches}
        stale = {k for _, k in window.gradient if k in earlier and k not in window.microbatches}
        if stale and before.step is not None and window.step is not None:
            yield case.make(Clause.NEVER_CLEARED, window.step.node, window, lost=len(stale))
            break


def _step_node(window: Window) -> ir.NodeId | None:
    return window.step.node if window.step is not None else None


def _clear_that_lost(window: Window, lost: list[int]) -> Event | None:
    for event in window.events:
        if event.kind == CLEAR and any(k in lost for _, k in event.gradient):
            return event
    return None


def check_clocks(case: Case) -> Iterator[Violation]:
    """The schedule or the scaler moves more than once a window."""
    if not case.accumulates:
        return
    for window in case.stepped:
        if window.size < 2:
            continue
        for node, events in _by_node(window, ADVANCE).items():
            if len(events) > 1:
                yield case.make(Clause.SCHEDULE, node, window, times=len(events), other=_step_node(window))
        last = _last_backward(window)
        for kind in (UNSCALE, UPDATE):
            for node, events in _by_node(window, kind).items():
                early = [e for e in events if window.events.index(e) < last and e.detail != "implicit"]
                inside = [e for e in early if _has_backward_before(window, e)]
                if inside:
                    yield case.make(Clause.SCALER, node, window, times=len(events), detail=kind)


def _has_backward_before(window: Window, event: Event) -> bool:
    place = window.events.index(event)
    return any(earlier.kind == BACKWARD for earlier in window.events[:place])


def check_sync(case: Case) -> Iterator[Violation]:
    """The backward before the step must synchronise the ranks."""
    if not case.accumulates:
        return
    for window in case.stepped:
        backwards = window.backwards
        if window.size < 2 or not backwards or window.crosses_end:
            continue
        if backwards[-1].detail == "nosync" and backwards[-1].sync_node >= 0:
            yield case.make(Clause.SYNC, backwards[-1].sync_node, window, other=_step_node(window))
            return


# ------------------------------------------------------------------------------------------------------ boundaries


def check_boundary(case: Case) -> Iterator[Violation]:
    """The first window is short, or a partial one neither steps nor is cleared."""
    if not case.accumulates or not case.stepped:
        return
    boundary = find_boundary(case)
    if boundary is None:
        return
    first, rest = case.windows[0], case.stepped[1:]
    if (
        first.step is not None
        and first.size < case.full
        and not first.at_end
        and any(window.size == case.full for window in rest[:2])
        and (not case.trace.guessed or case.trace.counts_itself)
    ):
        yield case.make(Clause.OFF_BY_ONE, boundary, first, expected=Fraction(case.full), actual=Fraction(first.size))
    yield from _check_leftover(case, boundary)


def _check_leftover(case: Case, boundary: ir.NodeId) -> Iterator[Violation]:
    if not any(True for _ in case.trace.ends) or case.trace.guessed:
        return
    carried = any(window.crosses_end and window.size == case.full for window in case.stepped)
    if carried:
        return
    for window in case.windows:
        left = _left_at_end(case, window)
        if left:
            lost = len(left)
            detail = "leaked" if window.step is not None and window.crosses_end else "dropped"
            if window.step is not None and not {k for _, k in window.gradient} & set(left):
                detail = "cleared"
            yield case.make(Clause.LEFTOVER, boundary, window, lost=lost, window=case.full, detail=detail)
            return


def _left_at_end(case: Case, window: Window) -> list[int]:
    """The microbatches of a window that were pending when their finite loader ended, and did not step then."""
    trace = case.trace
    places = {id(event): index for index, event in enumerate(trace.events)}
    backwards = window.backwards
    if not backwards:
        return []
    step_place = places[id(window.step)] if window.step is not None else 10**9
    for end, node, _key in trace.ends:
        before = [e for e in backwards if places[id(e)] < end and any(loop == node for loop, _ in e.loops)]
        if not before or step_place < end:
            continue
        after = [e for e in backwards if places[id(e)] >= end]
        if window.step is None or after:
            return list(dict.fromkeys(event.microbatch for event in before))
    return []


def find_boundary(case: Case) -> ir.NodeId | None:
    """The `if` that decides whether to step: around the step, or skipping it by `continue`."""
    tests = case.trace.tests
    for window in case.stepped:
        if window.step is None:
            continue
        for guard in reversed(window.step.guards):
            if guard.numeric and tests.get(guard.node) == {True, False}:
                return guard.node
    inside = [node for node, answers in tests.items() if answers == {True, False} and node in case.trace.skips]
    if inside or any(key == "driver" for _, _, key in case.trace.ends):
        return inside[0] if inside else None
    return next((node for window in case.stepped if (node := _one_call(window)) is not None), None)


def _one_call(window: Window) -> ir.NodeId | None:
    """The call that runs the backward of each microbatch and steps where its argument says so."""
    if window.step is None:
        return None
    nodes = {event.node for event in window.backwards}
    return window.step.node if nodes == {window.step.node} and window.size > 1 else None


CHECKS = (check_weights, check_clips, check_steps, check_clears, check_clocks, check_sync, check_boundary)

__all__ = ["CHECKS", "STEP", "Case", "Evidence"]
