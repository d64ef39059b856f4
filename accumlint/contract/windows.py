"""Cut a trace into windows: the microbatches between two steps of one optimizer."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

from accumlint.semantics.trace import BACKWARD, STEP, Event, Snapshot, Trace
from accumlint.semantics.values import Site


@dataclass(frozen=True, slots=True)
class Window:
    """The microbatches of one optimizer step.

    `microbatches` are in the order of their first backward. `step` is None for what was left when the trace ended.
    `at_end` says that a finite loader ended in this window, right before its step (a partial window may follow from
    that); `crosses_end` that data of two passes are in it.
    """

    store: str
    microbatches: tuple[int, ...]
    events: tuple[Event, ...]
    step: Event | None
    at_end: bool = False
    crosses_end: bool = False

    @property
    def size(self) -> int:
        return len(self.microbatches)

    @property
    def backwards(self) -> list[Event]:
        return [event for event in self.events if event.kind == BACKWARD]

    @property
    def gradient(self) -> Snapshot:
        return self.step.gradient if self.step is not None else {}


@dataclass(slots=True)
class _Open:
    events: list[Event] = field(default_factory=list)


def cut_windows(trace: Trace, store: str) -> list[Window]:
    """All windows of a store, in order; the last one has no step if something was left.

    A backward whose loss does not reach the step at all (the generator's loss in the discriminator's gradient, which
    is cleared) does not make a window longer.
    """
    ends = {(index, loop) for index, loop, _ in trace.ends}
    positions = {id(event): index for index, event in enumerate(trace.events)}
    windows: list[Window] = []
    current = _Open()
    for event in trace.of_store(store):
        current.events.append(event)
        if event.kind == STEP:
            windows.append(_close(store, current, event, ends, positions))
            current = _Open()
    if any(event.kind == BACKWARD for event in current.events):
        windows.append(_close(store, current, None, ends, positions))
    return windows


def is_shared(trace: Trace, window: Window) -> bool:
    """Whether another optimizer stepped between two backwards of a window, and not with a loss of its own.

    Optimizers that take turns over the parts of one model: which gradient is whose is not known then.
    """
    backwards = window.backwards
    if len(backwards) < 2 or len(trace.stores) < 2:
        return False
    arrived: set[Site] = set()
    for event in trace.events[trace.events.index(backwards[0]) : trace.events.index(backwards[-1])]:
        own = event.store == window.store
        if own and event.kind == BACKWARD and event.form is not None:
            arrived |= {site for site, _ in event.form.terms}
        if not own and event.kind == STEP and (not event.gradient or arrived & {site for site, _ in event.gradient}):
            return True
    return False


def _close(
    store: str, current: _Open, step: Event | None, ends: set[tuple[int, int]], positions: dict[int, int]
) -> Window:
    backwards = [event for event in current.events if event.kind == BACKWARD]
    if step is not None and step.gradient:
        reached = {site_key(site) for site, _ in step.gradient}
        backwards = [e for e in backwards if e.form is not None and {site_key(s) for s, _ in e.form.terms} & reached]
    microbatches = tuple(dict.fromkeys(event.microbatch for event in backwards))
    crosses = any(_ended(first, positions[id(last)], ends, positions) for first, last in pairwise(backwards))
    after = positions[id(step)] if step is not None else 10**9
    at_end = bool(backwards) and (_ended(backwards[-1], after, ends, positions) or backwards[-1].is_last)
    return Window(store, microbatches, tuple(current.events), step, at_end, crosses)


def _ended(backward: Event, until: int, ends: set[tuple[int, int]], positions: dict[int, int]) -> bool:
    """Whether a loop that a backward ran in ended between it and a later event, not one inside a microbatch."""
    inside = {loop for loop, _ in backward.loops}
    return any(positions[id(backward)] < end <= until and loop in inside for end, loop in ends)


def site_key(site: Site) -> tuple[int, str]:
    """Which place in the code a site is: the same call on another microbatch is the same place."""
    return site.node, site.reduction
