"""The weight that a target has in the gradient of a step, as an exact fraction of 1 / sum(n) of its window."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Protocol

from accumlint.apis.language import Count
from accumlint.repair.prove_windows import Segment, cut_segments
from accumlint.semantics.numbers import POINTS, Num
from accumlint.semantics.trace import STEP, Snapshot, Trace
from accumlint.semantics.values import Site

Place = tuple[int, str]
IGNORING = frozenset({"ignore_index", "mask", "-100", "ignore", "label -100"})
REAL_COUNTS = (Count.WEIGHTED_TARGETS, Count.WEIGHT_SUM)
CLAMP = re.compile(r"max\((?P<body>.*)\)", re.S)
UNIT_FLOOR = re.compile(r"max\((?:1(?:\.0*)?, |.*, 1(?:\.0*)?\))", re.S)


class Allowed(Protocol):
    """What `prove.Expectation` says of weights."""

    @property
    def equal(self) -> bool: ...
    @property
    def undefined(self) -> bool: ...
    @property
    def summed(self) -> Fraction | None: ...


def place_of(site: Site) -> Place:
    return site.node, site.reduction


def terms_of(trace: Trace) -> int:
    """In how many places of the text the loss of a loop that steps is born."""
    return len({place_of(site) for event in trace.events if event.kind == STEP for site, _ in event.gradient})


def _by_place(gradient: Snapshot) -> dict[Place, dict[int, tuple[Site, list[Num]]]]:
    found: dict[Place, dict[int, tuple[Site, list[Num]]]] = {}
    for (site, microbatch), coefficient in gradient.items():
        found.setdefault(place_of(site), {}).setdefault(microbatch, (site, []))[1].append(coefficient)
    return found


def misweighed(trace: Trace, segment: Segment, allowed: Allowed, assumptions: dict[str, None]) -> str:
    """What is wrong with the weights of a window, in one line; "" if they are 1 / sum(n) up to one factor a term."""
    assert segment.step is not None
    for terms in _by_place(segment.step.gradient).values():
        site = next(iter(terms.values()))[0]
        if not site.separable:
            return "the loss couples the examples of a batch"
        if site.reduction not in ("mean", "sum", "unknown"):
            return f"a loss of reduction {site.reduction!r} has no known count"
        if missing := [k for k in segment.microbatches if k not in terms]:
            return f"a term of the loss is missing in {len(missing)} microbatches of the window"
        if problem := _undefined(trace, segment, terms, allowed, assumptions):
            return problem
        if len(window_factors(trace, segment, terms, allowed.equal, allowed.summed)) != 1:
            return "targets of one window have unequal weights"
        if site.count in REAL_COUNTS and any(_has_unit_floor(c) for _, cs in terms.values() for c in cs):
            return "a sum of weights, which may be below 1, is kept at 1 or above"
    return ""


def _has_unit_floor(coefficient: Num) -> bool:
    """Whether the divisor is `max(n, 1)`: harmless for a count, wrong for a sum of real weights."""
    found = CLAMP.search(coefficient.text)
    if UNIT_FLOOR.search(coefficient.text):
        return True
    return "max(" in coefficient.text and found is None  # the text was cut: it cannot be told


def _undefined(
    trace: Trace,
    segment: Segment,
    terms: dict[int, tuple[Site, list[Num]]],
    allowed: Allowed,
    assumptions: dict[str, None],
) -> str:
    for point in range(POINTS):
        total = sum((count_at(trace, k, point) for k in segment.microbatches), Fraction(0))
        for k in segment.microbatches:
            site, coefficients = terms[k]
            if all(c.at[point] is not None for c in coefficients):
                continue
            if allowed.undefined and not count_at(trace, k, point):
                assumptions["every microbatch has a target: the loop divided by zero there before the repair too"] = (
                    None
                )
                continue
            if total:
                return "a coefficient is undefined although the window has targets"
            if allowed.undefined:
                assumptions["every window has a target: the loop divided by zero there before the repair as well"] = (
                    None
                )
                continue
            if any(fact.name in IGNORING for fact in site.facts) or site.count is Count.VALID_TARGETS:
                return "divides by zero where a window has no target"
            assumptions["every window has a target: the divisor is not kept from being 0"] = None
    return ""


def count_at(trace: Trace, microbatch: int, point: int) -> Fraction:
    return trace.counts[microbatch].at[point] or Fraction(0)


def window_factors(
    trace: Trace,
    segment: Segment,
    terms: dict[int, tuple[Site, list[Num]]],
    equal: bool = False,
    summed: Fraction | None = None,
) -> set[Fraction]:
    """The weights of the window's targets times sum(n), over microbatches and points; right is one value.

    With `equal`, microbatches hold equally many targets: a mean that does not look at counts is weighed by 1 / size.
    With `summed` the objective is a plain sum, in which each target weighs that much.
    """
    unit = trace.world.constant if trace.sums_ranks and trace.world is not None else Fraction(1)
    found: set[Fraction] = set()
    for point in range(POINTS):
        total = sum((count_at(trace, k, point) for k in segment.microbatches), Fraction(0))
        for k in segment.microbatches:
            count = count_at(trace, k, point)
            if k not in terms or not count or any(c.at[point] is None for c in terms[k][1]):
                continue  # a mean over no target has no gradient, and S[k] is zero there
            value = sum((c.at[point] or Fraction(0) for c in terms[k][1]), Fraction(0))
            if summed is not None:
                found.add(value / summed)
                continue
            if equal and terms[k][0].reduction != "sum" and not any(c.depends_on_counts for c in terms[k][1]):
                found.add(value * len(segment.microbatches) * unit)
                continue
            on_sum = value if terms[k][0].reduction == "sum" else value / count
            found.add(on_sum * total * unit)
    return found


def trace_factors(trace: Trace, equal: bool = False, summed: Fraction | None = None) -> list[set[Fraction]]:
    """For each place of a loss, in the order of the text: its factors over all windows of all stores."""
    found: dict[Place, set[Fraction]] = {}
    for store in trace.stores:
        for segment in cut_segments(trace, store):
            if segment.step is None:
                continue
            for place, terms in _by_place(segment.step.gradient).items():
                found.setdefault(place, set()).update(window_factors(trace, segment, terms, equal, summed))
    return [found[place] for place in sorted(found)]


def sum_weight(traces: Iterable[Trace]) -> Fraction | None:
    """What each target weighs if the objective is a plain sum: one number in every step; None if it is not."""
    weights: set[Fraction | None] = set()
    for trace in traces:
        for store in trace.stores:
            for segment in cut_segments(trace, store):
                for (site, _), coefficient in segment.step.gradient.items() if segment.step is not None else ():
                    weights |= set(coefficient.at) if site.reduction == "sum" and site.separable else {None}
    return weights.pop() if len(weights) == 1 else None


def original_factors(traces: Sequence[Trace]) -> list[Fraction | None]:
    """The weight of each term of the original's loss beside its division by K: 0.5 in `(a + 0.5 * b) / K`.

    Read where it is certain: the same number for two K, or a number of the configuration. None elsewhere.
    """
    read: list[list[set[Fraction]]] = []
    for trace in traces:
        terms: dict[Place, set[Fraction]] = {}
        for store in trace.stores:
            for segment in cut_segments(trace, store):
                if segment.step is None or segment.at_end:
                    continue
                for place, found in _by_place(segment.step.gradient).items():
                    terms.setdefault(place, set()).update(_means(found, len(segment.microbatches)))
        read.append([terms[place] for place in sorted(terms)])
    if not read or len({len(each) for each in read}) != 1:
        return []
    return [_certain(candidates) for candidates in zip(*read, strict=True)]


def _means(terms: dict[int, tuple[Site, list[Num]]], size: int) -> Iterable[Fraction]:
    for site, coefficients in terms.values():
        values = {v for c in coefficients for v in c.at}
        ranks = any({"world size", "all-reduced"} & c.unknowns for c in coefficients)
        if site.reduction in ("mean", "unknown") and len(coefficients) == 1 and len(values) == 1 and not ranks:
            (value,) = values
            if value is not None:
                yield value * size


def _certain(candidates: Sequence[set[Fraction]]) -> Fraction | None:
    values = set().union(*candidates)
    if len(values) != 1:
        return None
    (value,) = values
    return value if len(candidates) > 1 or value.denominator % 13 == 0 else None


def is_reduced(gradient: Snapshot) -> bool:
    return all("all-reduced" in coefficient.unknowns for coefficient in gradient.values())
