"""Gradient slices: the events of a trace as a straight-line torch program, compared with the full batch.

The slice holds no user call. Model, data and loss are tiny stand-ins (`slice_engine.py`), fp64 and nonlinear, with the
unequal counts of a sample point; what is real is the order and the numbers of backward, scaling, clip, step and clear.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path

from accumlint.harness.runner import Job, Runner, Status
from accumlint.repair.prove_windows import cut_segments, meant_windows
from accumlint.semantics.trace import (
    BACKWARD,
    CLEAR,
    CLIP,
    COLLECT,
    SCALE,
    STEP,
    UNSCALE,
    UPDATE,
    Event,
    Snapshot,
    Trace,
)
from accumlint.semantics.values import Site

LIMIT = 1e-12
POINTS_EXECUTED = (0, 2, 3)  # unequal counts; a microbatch without targets; a window without any
EQUAL, EACH = -1, 4
SEED = 20


class NotExecutableError(Exception):
    """The trace cannot be written as a program; the reason is one line."""


@dataclass(frozen=True, slots=True)
class Executed:
    """What running one trace at one point gave. `error` is of the gradient before clip, `worst` over everything."""

    error: float
    worst: float
    original_error: float | None
    counts: tuple[tuple[int, ...], ...]
    seed: int
    problem: str = ""

    @property
    def holds(self) -> bool:
        return not self.problem and self.error <= LIMIT and self.worst <= 1e-11


@cache
def engine_text() -> str:
    text = Path(__file__).with_name("slice_engine.py").read_text(encoding="utf-8")
    return text.replace("from __future__ import annotations\n", "")


def slice_program(
    trace: Trace, original: Trace | None, point: int, seed: int, factors: Sequence[Fraction], *, summed: bool = False
) -> str:
    """The program text for one store of a trace at a sample point, and for the original beside it.

    Its `run(torch)` returns the errors of both. Raises NotExecutableError for an undefined coefficient.
    """
    lines = [engine_text(), "", "def run(torch):", "    found = {}"]
    lines += _body(trace, "repaired", point, seed, factors, summed)
    if original is not None:
        lines += _body(original, "original", point, seed, factors, summed)
    lines.append("    return found")
    return "\n".join(lines) + "\n"


def _body(trace: Trace, name: str, point: int, seed: int, factors: Sequence[Fraction], summed: bool) -> list[str]:
    lines: list[str] = []
    for store in trace.stores:
        lines += _of_store(trace, store, f"{name} {store}", point, seed, factors, summed)
    return lines


def _of_store(
    trace: Trace, store: str, name: str, point: int, seed: int, factors: Sequence[Fraction], summed: bool
) -> list[str]:
    counts = counts_at(trace, point)
    windows = meant_windows(trace, cut_segments(trace, store))
    sites = sites_of(trace, store)
    weights = [
        float(factors[place]) if place < len(factors) else 1.0 for place in range(max(len(set(sites.values())), 1))
    ]
    clip = clip_kind(trace, store)
    body = [f"s = Slice(torch, {counts}, {len(weights)}, {seed})", *statements(trace, store, point, sites)]
    body.append(f"wanted = slice_full_batch(torch, [{counts}], {weights}, {seed}, {windows}, {clip!r}, {not summed})")
    body.append(f"found[{name!r}] = slice_compare(s, wanted)")
    return [f"    {line}" for line in body]


def statements(trace: Trace, store: str, point: int, sites: dict[tuple[int, str], int]) -> list[str]:
    """What happens to the gradients of a store, line by line, with the numbers of a point."""
    lines: list[str] = []
    gradient: Snapshot = {}
    for event in trace.events:
        if event.store == store:
            lines += _statement(event, gradient, sites, point)
            gradient = {} if event.kind == CLEAR else event.gradient
        elif event.kind == COLLECT and event.by is not None:
            value = event.by.at[point]
            lines.append(f"s.collect({None if value is None else float(value)!r}, {event.detail!r})")
    return lines


def counts_at(trace: Trace, point: int) -> list[int]:
    """Valid targets of each microbatch; at the point EQUAL every one has as many."""
    return [EACH if point == EQUAL else int(count.at[point] or 0) for count in trace.counts]


def sites_of(trace: Trace, store: str) -> dict[tuple[int, str], int]:
    """Numbers for the places of the loss, in the order of the text."""
    places = {
        (site.node, site.reduction)
        for event in trace.of_store(store)
        if event.kind == STEP
        for site, _ in event.gradient
    }
    return {place: number for number, place in enumerate(sorted(places))}


def clip_kind(trace: Trace, store: str) -> str:
    """ "norm", "value" or "": how the gradients of a store are clipped."""
    return _kind(next((event.detail for event in trace.of_store(store) if event.kind == CLIP), ""))


def _kind(detail: str) -> str:
    return "" if not detail else "value" if "value" in detail else "norm"


def _statement(event: Event, before: Snapshot, sites: dict[tuple[int, str], int], point: int) -> list[str]:
    if event.kind == BACKWARD:
        terms = _added(before, event.gradient, sites, point)
        scaled = event.form is not None and event.form.scaler is not None
        return [f"s.backward({terms}, {scaled}, {event.detail != 'nosync'})"]
    if event.kind == SCALE:
        value = event.by.at[point] if event.by is not None else None
        if value is None:
            raise NotExecutableError("a factor of the gradient is undefined or unknown")
        return [f"s.scale({float(value)!r}, {event.detail.startswith('/')})"]
    if event.kind == CLIP:
        return [f"s.clip({_kind(event.detail)!r})"]
    simple = {STEP: "s.step()", CLEAR: "s.clear()", UNSCALE: "s.unscale()", UPDATE: "s.update()"}
    return [simple[event.kind]] if event.kind in simple else []


def _added(
    before: Snapshot, after: Snapshot, sites: dict[tuple[int, str], int], point: int
) -> list[tuple[int, int, str, float]]:
    """What a backward added: the difference of two snapshots, as terms of a loss that torch computes."""
    terms = []
    for (site, microbatch), coefficient in after.items():
        value, earlier = coefficient.at[point], Fraction(0)
        if (site, microbatch) in before:
            known = before[site, microbatch].at[point]
            if known is None:
                raise NotExecutableError("a coefficient is undefined")
            earlier = known
        if value is None:
            raise NotExecutableError("a coefficient is undefined")
        if value != earlier or (site, microbatch) not in before:
            place = (site.node, site.reduction)
            terms.append((sites.get(place, 0), microbatch, _reduction(site), float(value - earlier)))
    return terms


def _reduction(site: Site) -> str:
    return "sum" if site.reduction == "sum" else "mean"


def execute(
    trace: Trace,
    original: Trace | None,
    runner: Runner,
    factors: Sequence[Fraction] = (),
    *,
    equal: bool = False,
    empty: bool = True,
    summed: Fraction | None = None,
    seed: int = SEED,
) -> list[Executed]:
    """Run a trace at every point that is executed; what cannot be run is a result with its problem.

    `empty` is False where the proof itself assumes targets everywhere; with `summed` the full batch is a sum in which
    each target weighs that much.
    """
    points = (EQUAL,) if equal else POINTS_EXECUTED if empty else POINTS_EXECUTED[:2]
    runs = []
    for point in points:
        if not empty and point != points[0] and not _is_defined(trace, point):
            continue
        runs.append(_execute_at(trace, original, point, runner, factors, seed + point, summed))
    return runs


def _execute_at(
    trace: Trace,
    original: Trace | None,
    point: int,
    runner: Runner,
    factors: Sequence[Fraction],
    seed: int,
    summed: Fraction | None,
) -> Executed:
    counts = window_counts(trace, point)
    if original is not None and not _is_defined(original, point):
        original = None  # the other points say whether it differs
    try:
        factors = factors if summed is None else [summed]
        source = slice_program(trace, original, point, seed, factors, summed=summed is not None)
    except NotExecutableError as problem:
        if _may_skip(trace, point):
            return Executed(0.0, 0.0, None, counts, seed)
        return Executed(math.inf, math.inf, None, counts, seed, str(problem))
    result = runner.run(Job(f"slice {point}", source, seed=seed))
    if not result.ok:
        reason = result.error if result.status is not Status.RAISED else f"{result.error_type}: {result.error}"
        return Executed(math.inf, math.inf, None, counts, seed, f"{result.status.value}: {reason}")
    return read_errors(result.value, counts, seed)


def _may_skip(trace: Trace, point: int) -> bool:
    """Point 3 has a window without any target: a count of rows never gives that, and the proof says so."""
    return point == 3 and not _is_defined(trace, point)


def _is_defined(trace: Trace, point: int) -> bool:
    return all(c.at[point] is not None for event in trace.events for c in event.gradient.values())


def window_counts(trace: Trace, point: int) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(counts_at(trace, point)[k] for k in segment.microbatches)
        for store in trace.stores
        for segment in cut_segments(trace, store)
        if segment.microbatches
    )


def read_errors(value: dict[str, dict[str, float]], counts: tuple[tuple[int, ...], ...], seed: int) -> Executed:
    mine = [found for name, found in value.items() if name.startswith("repaired ")]
    theirs = [found for name, found in value.items() if name.startswith("original ")]
    problem = ""
    for found in mine:
        if found["steps"] != found["wanted"]:
            problem = f"{found['steps']:g} steps for {found['wanted']:g} windows"
        elif not found["active"]:
            problem = "the clip was not active"
    error = max((found["error"] for found in mine), default=math.inf)
    worst = max((max(f["error"], f["clipped"], f["parameters"]) for f in mine), default=math.inf)
    original = max(
        (max(f["error"], f["clipped"], f["parameters"], 1.0 * (f["steps"] != f["wanted"])) for f in theirs),
        default=None,
    )
    return Executed(error, worst, original, counts, seed, problem)
