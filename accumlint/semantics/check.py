"""Check a trace where it is made: a broken invariant is a fault of the tool, never a finding.

What must hold for every store, whatever the code is: only a backward adds terms, and only those of its loss; a step, a
clip and a clock change nothing; a scale multiplies what is there; a clear leaves nothing behind; and the microbatches
are numbered without gaps, each with a count.
"""

from __future__ import annotations

from accumlint.semantics.numbers import POINTS, Num, combine
from accumlint.semantics.trace import (
    ADVANCE,
    BACKWARD,
    CLEAR,
    CLIP,
    SCALE,
    STEP,
    UNSCALE,
    UPDATE,
    Event,
    Snapshot,
    Trace,
    render,
)
from accumlint.semantics.values import Form, Site

_CHANGE_NOTHING = (STEP, CLIP, UNSCALE, ADVANCE, UPDATE, CLEAR)
"""Kinds whose snapshot is what the event before left; a clear is recorded as it found the gradient."""


class TraceError(Exception):
    """A fault of the interpreter: the trace contradicts itself. The message holds the printed trace."""


def check_trace(trace: Trace) -> None:
    """Raise TraceError if a trace breaks an invariant; a stopped trace is checked as far as it goes."""
    _check_microbatches(trace)
    _check_decisions(trace)
    held: dict[str, Snapshot] = {}
    for place, event in enumerate(trace.events):
        if not event.store:
            continue
        if event.store in held:
            problem = _problem(event, held[event.store])
            if problem:
                _fail(trace, place, problem)
        held[event.store] = {} if event.kind == CLEAR else event.gradient


def _check_microbatches(trace: Trace) -> None:
    known = len(trace.counts)
    for count in trace.counts:
        if len(count.at) != POINTS:
            _fail(trace, 0, f"a count has {len(count.at)} points, not {POINTS}")
    for place, event in enumerate(trace.events):
        if event.microbatch >= known:
            _fail(trace, place, f"microbatch {event.microbatch + 1} has no count")
        for _, microbatch in event.gradient:
            if not 0 <= microbatch < known:
                _fail(trace, place, f"a gradient of microbatch {microbatch + 1}, which has no count")


def _check_decisions(trace: Trace) -> None:
    keys = [decision.key for decision in trace.decisions]
    if len(keys) != len(set(keys)):
        _fail(trace, 0, "one condition was decided twice")


def _problem(event: Event, before: Snapshot) -> str:
    """What is wrong with an event, given the gradient that the one before left in its store."""
    if event.kind == BACKWARD:
        return _added(event, before)
    if event.kind in _CHANGE_NOTHING:
        return "" if _same(event.gradient, before) else f"a {event.kind} finds another gradient than was left"
    if event.kind == SCALE:
        return _scaled(event, before)
    return ""


def _added(event: Event, before: Snapshot) -> str:
    if event.form is None:
        return "a backward without a loss"
    reached = {site for site, _ in event.form.terms}
    for key, coefficient in event.gradient.items():
        if key in before and (key[0] not in reached and before[key].at != coefficient.at):
            return "a backward changes a term that is not its loss's"
        if key not in before and key[0] not in reached:
            return "a backward adds a term that is not its loss's"
    if any(key not in event.gradient for key in before):
        return "a backward drops a term"
    return _sum_is_wrong(event.form, event.gradient, before)


def _sum_is_wrong(form: Form, after: Snapshot, before: Snapshot) -> str:
    """A loss's term must arrive in exactly one microbatch, whole: after = before + coefficient."""
    wanted: dict[Site, Num] = {}
    for site, coefficient in form.terms:
        wanted[site] = coefficient if site not in wanted else combine("+", wanted[site], coefficient) or coefficient
    for site, coefficient in wanted.items():
        changed = [key for key in after if key[0] is site and (key not in before or before[key].at != after[key].at)]
        if len(changed) > 1:
            return "a backward adds one term to two microbatches"
        for key in changed:
            total = coefficient if key not in before else combine("+", before[key], coefficient)
            if total is not None and total.at != after[key].at:
                return "a backward adds another number than its loss's coefficient"
    return ""


def _scaled(event: Event, before: Snapshot) -> str:
    if set(event.gradient) != set(before):
        return "a scale adds or drops a term"
    if event.by is None or event.detail not in ("*", "/"):
        return ""
    for key, coefficient in before.items():
        result = combine(event.detail, coefficient, event.by)
        if result is not None and result.at != event.gradient[key].at:
            return "a scale multiplies by another number than it says"
    return ""


def _same(left: Snapshot, right: Snapshot) -> bool:
    return set(left) == set(right) and all(left[key].at == right[key].at for key in left)


def _fail(trace: Trace, place: int, problem: str) -> None:
    around = render(trace).splitlines()
    raise TraceError(
        f"{problem} (event {place + 1} of {len(trace.events)}, region {trace.region})\n" + "\n".join(around)
    )
