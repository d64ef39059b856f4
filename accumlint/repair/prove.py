"""The proof of a repair: the strict contract on the traces of the repaired text, at every sample point.

The detector is lenient, since a false alarm costs more than a miss; here it is the other way round. Whatever is not
shown is a failure: a window that is not complete at one point, a coefficient that is not known, a path that stopped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction

from accumlint.repair.prove_weights import is_reduced, misweighed, original_factors, terms_of, trace_factors
from accumlint.repair.prove_windows import Segment, cut_segments, ends_of, whole_size
from accumlint.semantics.numbers import POINTS, Num
from accumlint.semantics.run import FLIPS, Result
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLIP, SCALE, STEP, UNSCALE, UPDATE, Event, Snapshot, Trace


@dataclass(frozen=True, slots=True)
class Proof:
    """Whether the strict contract holds; `reason` is the first thing that does not, in one line.

    `points` is the number of sample points of each window, `windows` how many were judged, `loops` the regions.
    """

    holds: bool
    reason: str = ""
    assumptions: tuple[str, ...] = ()
    points: int = POINTS
    windows: int = 0
    loops: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a proof may take from outside: `originals` by region name, declared contracts, and whether ranks exist."""

    originals: tuple[Result, ...] = ()
    declared: int = 0  # so many losses of unknown reduction are means, by declared contracts
    equal: bool = False  # no count was inserted: microbatches are taken to hold equally many targets
    counting: bool = False  # no count was inserted either, as the loop weighs by counts of its own
    distributed: bool = False
    crossing: bool = False  # windows of the original run on over the ends of passes, and that is no finding
    undefined: bool = False  # the original divides by zero as well where there is no target
    summed: Fraction | None = None  # original and repaired objective are plain sums: what each target weighs in them


class NotShownError(Exception):
    """The first thing that is not shown."""


def prove(results: Sequence[Result], expectation: Expectation | None = None) -> Proof:
    """Hold the default path and every flipped path of `results`, for each K, against the strict contract."""
    expectation = expectation or Expectation()
    loops = tuple(result.region.name for result in results)
    if not results:
        return Proof(False, "no training loop was read in the repaired text")
    assumptions: dict[str, None] = {}
    if expectation.summed is not None:
        assumptions["the objective is a sum over the targets of a window, as it was"] = None
    elif expectation.equal:
        assumptions["the microbatches of a window hold equally many targets: no count was inserted"] = None
    windows = 0
    for result in results:
        original = _original_of(result, expectation.originals)
        averages = any(trace.averages for traces, _ in _paths(result) for trace in traces)
        for traces, condition in _paths(result):
            alone = averages and not any(trace.averages for trace in traces)  # here it runs on one rank
            expected = replace(expectation, distributed=expectation.distributed and not alone)
            try:
                windows += _prove_path(traces, condition, original, expected, assumptions)
            except NotShownError as failure:
                where = f"{result.region.name}: " if result.region.name else ""
                branch = f" (where {condition})" if condition else ""
                return Proof(False, f"{where}{failure}{branch}", tuple(assumptions), windows=windows, loops=loops)
    if not windows:
        return Proof(False, "no window with a step was seen", tuple(assumptions), loops=loops)
    return Proof(True, "", tuple(assumptions), windows=windows, loops=loops)


def _original_of(result: Result, originals: Iterable[Result]) -> Result | None:
    return next((each for each in originals if each.region.name == result.region.name), None)


def _paths(result: Result) -> Iterator[tuple[Sequence[Trace], str]]:
    yield result.default, ""
    if result.whole:
        yield result.whole, "the data end with a window"
    keys = [d for d in result.default[0].decisions if d.basis == "default"][:FLIPS]
    for decision, traces in zip(keys, result.flipped, strict=False):
        yield traces, f"`{decision.key}` is {not decision.answer}"


def _prove_path(
    traces: Sequence[Trace],
    condition: str,
    original: Result | None,
    expectation: Expectation,
    assumptions: dict[str, None],
) -> int:
    windows = 0
    for trace in traces:
        for text in (trace.stopped, trace.exempt):
            if text:
                raise NotShownError(f"not analysed: {text}")
        if trace.guessed:
            raise NotShownError("the caller that drives the methods was guessed")
        if condition and not any(event.kind in (BACKWARD, STEP) for event in trace.events):
            continue  # a path that touches no gradient
        for text in _assumed(trace):
            assumptions[text] = None
        stepped = 0
        for store in trace.stores:
            stepped += _prove_store(trace, store, original, expectation, assumptions)
        if not stepped and any(event.kind == BACKWARD for event in trace.events):
            raise NotShownError("no step was seen")
        windows += stepped
    if not condition and original is not None:
        _same_kinds(traces[0], original.default[0])
    _same_factors(traces, original, expectation)
    return windows


def _assumed(trace: Trace) -> Iterator[str]:
    yield from trace.assumptions
    for decision in trace.decisions:
        if decision.basis != "flipped":
            yield f"`{decision.key}` is {decision.answer} ({decision.basis})"


# --------------------------------------------------------------------------------------------------------- windows


def _prove_store(
    trace: Trace,
    store: str,
    original: Result | None,
    expectation: Expectation,
    assumptions: dict[str, None],
) -> int:
    segments = cut_segments(trace, store)
    if not segments:
        return 0
    for segment in segments:
        if segment.step is None:
            if ends_of(trace) and not expectation.crossing:
                raise NotShownError("gradient is left over when the loop ends")
            assumptions["the stream does not end inside a window"] = None
            continue
        _prove_window(trace, segment, expectation, assumptions)
    stepped = [segment for segment in segments if segment.step is not None]
    if len(stepped) < 2:
        raise NotShownError("only one window was seen, so that clearing is not shown")
    _prove_sizes(trace, store, stepped, original)
    _prove_clocks(stepped)
    if any(event.kind == CLIP for event in segments[0].before_first):
        raise NotShownError("clips before the first backward")
    return len(stepped)


def _prove_window(trace: Trace, segment: Segment, expectation: Expectation, assumptions: dict[str, None]) -> None:
    step = segment.step
    assert step is not None
    if not segment.microbatches:
        raise NotShownError("steps without a microbatch in the window")
    present = {k for _, k in step.gradient}
    if stale := present - set(segment.microbatches):
        raise NotShownError(f"{len(stale)} microbatches of an earlier window are in the gradient of a step")
    if lost := set(segment.microbatches) - present:
        raise NotShownError(f"{len(lost)} microbatches of a window are missing from the gradient of its step")
    if segment.crosses_end and not expectation.crossing:
        raise NotShownError("a window holds microbatches of two passes over the data")
    if segment.crosses_end:
        assumptions["windows are meant to run on over the end of the data: the last one may stay unfinished"] = None
    if step.scaled:
        raise NotShownError("steps with gradients that a GradScaler has still scaled")
    unknown = {site.node for site, _ in step.gradient if site.reduction == "unknown"}
    if len(unknown) > expectation.declared:
        if expectation.equal:
            assumptions["the loss is a mean over its microbatch: it is divided by the number of steps"] = None
        elif expectation.counting and all(
            coefficient.depends_on_counts for (site, _), coefficient in step.gradient.items() if site.node in unknown
        ):
            assumptions["the loss is a mean over the targets that the loop counts: it is multiplied by them"] = None
        else:
            raise NotShownError("whether the loss is a mean or a sum is not known")
    if problem := misweighed(trace, segment, expectation, assumptions):
        raise NotShownError(problem)
    if expectation.distributed and not expectation.equal and not is_reduced(step.gradient):
        raise NotShownError("gradients are averaged over ranks, but the count is that of one rank")
    _prove_clip(segment, step)
    _prove_scaler(segment)
    if segment.backwards[-1].detail == "nosync":
        raise NotShownError("the last backward of a window does not synchronise the ranks")


def _prove_clip(segment: Segment, step: Event) -> None:
    clips = [event for event in segment.before if event.kind == CLIP]
    if len(clips) > 1:
        raise NotShownError(f"clips {len(clips)} times before one step")
    if any(event.kind in (CLIP, SCALE, UNSCALE) for event in segment.after if event.gradient):
        raise NotShownError("clips or scales gradients after the step")
    for clip in clips:
        if clip.scaled:
            raise NotShownError("clips gradients that a GradScaler has still scaled")
        if not same_gradient(clip.gradient, step.gradient):
            raise NotShownError("what is clipped is not the gradient that the step uses")
        later = segment.before[segment.before.index(clip) + 1 :]
        if any(event.kind in (SCALE, BACKWARD) for event in later):
            raise NotShownError("clips before the gradient is complete")


def _prove_scaler(segment: Segment) -> None:
    last = max(place for place, event in enumerate(segment.before) if event.kind == BACKWARD)
    unscales = [place for place, event in enumerate(segment.before) if event.kind == UNSCALE]
    if sum(segment.before[place].detail != "implicit" for place in unscales) > 1:
        raise NotShownError("unscales twice for one step, which raises")
    if any(place < last for place in unscales):
        raise NotShownError("unscales before the last backward of the window")
    scaled = any(event.form is not None and event.form.scaler is not None for event in segment.backwards)
    updates = [event for event in segment.after if event.kind == UPDATE]
    if any(event.kind == UPDATE for event in segment.before):
        raise NotShownError("updates the scaler inside the window")
    if scaled and len(updates) != 1:
        raise NotShownError(f"updates the scaler {len(updates)} times for one step")


def same_gradient(left: Snapshot, right: Snapshot) -> bool:
    """Whether two snapshots are equal at every point, undefined points included."""
    keys = left.keys() | right.keys()
    return all(_at(left.get(key)) == _at(right.get(key)) for key in keys)


def _at(value: Num | None) -> tuple[Fraction | None, ...]:
    return (Fraction(0),) * POINTS if value is None else value.at


def _prove_sizes(trace: Trace, store: str, stepped: list[Segment], original: Result | None) -> None:
    size = trace.steps
    if size is None and original is not None and not original.stopped:
        size = whole_size(cut_segments(original.default[0], store)) or None
    whole = [segment for segment in stepped if not segment.at_end]
    if size is None:
        size = max((len(segment.microbatches) for segment in stepped), default=0)
    if size < 2:
        raise NotShownError("no window holds more than one microbatch")
    if not whole and not any(len(segment.microbatches) == size for segment in stepped):
        raise NotShownError("no whole window was seen")
    for segment in stepped:
        found = len(segment.microbatches)
        if found > size or (found < size and not segment.at_end):
            raise NotShownError(f"a window holds {found} microbatches where {size} are meant")


def _prove_clocks(stepped: list[Segment]) -> None:
    """A schedule moves once a step, in each window or only at the end of a pass."""
    inside = [sum(event.kind == ADVANCE for event in segment.all) for segment in stepped if not segment.at_end]
    ending = [sum(event.kind == ADVANCE for event in segment.all) for segment in stepped if segment.at_end]
    if len(set(inside)) > 1 or any(count > 1 for count in inside):
        raise NotShownError(f"the schedule advances {max(inside)} times for one step")
    usual = inside[0] if inside else 0
    if usual and any(count != usual and count != usual + 1 for count in ending):
        raise NotShownError("the schedule advances in whole windows, but not in a partial one")
    for segment in stepped:
        last = max(place for place, event in enumerate(segment.before) if event.kind == BACKWARD)
        if any(event.kind == ADVANCE for event in segment.before[:last]):
            raise NotShownError("the schedule advances inside a window")


# ------------------------------------------------------------------------------------------------ beside the original


def _same_kinds(trace: Trace, original: Trace) -> None:
    """What the original did to gradients or clocks, the repaired loop still does; its loss has as many terms."""
    if not original.stopped and terms_of(trace) < terms_of(original):
        raise NotShownError("a term of the original's loss is gone")
    for kind, word in ((CLIP, "clip"), (ADVANCE, "schedule"), (UPDATE, "scaler's update")):
        had = {event.detail.partition("@")[0] for event in original.events if event.kind == kind}
        has = {event.detail.partition("@")[0] for event in trace.events if event.kind == kind}
        if had - has:
            raise NotShownError(f"the {word} of the original is gone")
        if kind == CLIP and has - had and not original.stopped:
            raise NotShownError("clips where the original did not")
    for store in trace.stores:
        stepped = [segment for segment in cut_segments(trace, store) if segment.step is not None]
        clipped = [any(event.kind == CLIP for event in segment.before) for segment in stepped]
        if any(clipped) and not all(clipped):
            raise NotShownError("some windows are clipped and some are not")


def _same_factors(traces: Sequence[Trace], original: Result | None, expectation: Expectation) -> None:
    """The weight of a target is exactly 1 / sum(n), or has the factor that the original gave to this term."""
    allowed = original_factors(original.default) if original is not None and not original.stopped else []
    read = [trace_factors(trace, expectation.equal, expectation.summed) for trace in traces]
    for place, found in enumerate(zip(*read, strict=False)):
        values = set().union(*found)
        if len(values) > 1:
            raise NotShownError("a target's weight is not the same fraction of 1 / sum(n) in all windows")
        if not values:
            raise NotShownError("no window of a term has a target")
        (factor,) = values
        wanted = allowed[place] if place < len(allowed) else None
        if factor not in (1, wanted):
            raise NotShownError(f"a target's weight is {factor} / sum(n) of its window, not 1 / sum(n)")
