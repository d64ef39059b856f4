"""Windows as a proof sees them: everything between the first backward after a step and the next one's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise

from accumlint.semantics.trace import BACKWARD, STEP, Event, Trace


@dataclass(slots=True)
class Segment:
    """One window of one store. `before` ends with the step (if any), `after` holds what follows until a new backward.

    `before_first` is what came before the first backward of the trace.
    """

    before: list[Event] = field(default_factory=list)
    after: list[Event] = field(default_factory=list)
    step: Event | None = None
    before_first: list[Event] = field(default_factory=list)
    crosses_end: bool = False
    at_end: bool = False

    @property
    def all(self) -> list[Event]:
        return [*self.before, *self.after]

    @property
    def backwards(self) -> list[Event]:
        """The backwards whose loss is (or should be) in the gradient of the step.

        One whose loss is in no term of the step's gradient at all is another loss (the generator's in the
        discriminator's gradient, cleared before).
        """
        found = [event for event in self.before if event.kind == BACKWARD]
        if self.step is None or not self.step.gradient:
            return found
        reached = {site.node for site, _ in self.step.gradient}
        return [e for e in found if e.form is None or {site.node for site, _ in e.form.terms} & reached]

    @property
    def microbatches(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(event.microbatch for event in self.backwards))


def cut_segments(trace: Trace, store: str) -> list[Segment]:
    """All windows of a store in order. A step without a backward before it is a segment of its own."""
    places = {id(event): index for index, event in enumerate(trace.events)}
    segments: list[Segment] = []
    opening: list[Event] = []
    current: Segment | None = None
    for event in trace.of_store(store):
        if event.kind == BACKWARD and (current is None or current.step is not None):
            current = Segment(before_first=opening)
            opening = []
            segments.append(current)
        if event.kind == STEP and (current is None or current.step is not None):
            current = Segment()
            segments.append(current)
        if current is None:
            opening.append(event)
        elif current.step is not None:
            current.after.append(event)
        else:
            current.before.append(event)
            if event.kind == STEP:
                current.step = event
    for segment in segments:
        _mark_ends(trace, segment, places)
    return segments


def ends_of(trace: Trace) -> list[int]:
    """Where data end: places among the events.

    A loop beside, as a validation is, ends none of the microbatches that come from other streams, or by `next` from
    what is taken to be endless.
    """
    backwards = [event for event in trace.events if event.kind == BACKWARD]
    around = {loop for event in backwards for loop, _ in event.loops}
    kinds = {kind for event in backwards for kind in trace.lineages.get(event.microbatch, ("",))}
    streams = {kind.removeprefix("batch:") for kind in kinds if kind.startswith("batch:")}
    known = all(kind == "next" or kind.startswith("batch:") for kind in kinds)

    def is_own(loop: int, key: str) -> bool:
        return not known or loop in around or any(key in stream or stream in key for stream in streams)

    return [index for index, loop, key in trace.ends if is_own(loop, key)]


def _mark_ends(trace: Trace, segment: Segment, places: dict[int, int]) -> None:
    ends = ends_of(trace)
    backwards = [places[id(event)] for event in segment.backwards]
    if not backwards:
        return
    segment.crosses_end = any(first < end <= last for end in ends for first, last in pairwise(backwards))
    step = places[id(segment.step)] if segment.step is not None else 10**9
    following = [index for index, event in enumerate(trace.events) if index > step and event.kind == BACKWARD]
    until = min(following, default=len(trace.events))
    segment.at_end = segment.backwards[-1].is_last or any(backwards[-1] < end <= until for end in ends)


def meant_windows(trace: Trace, segments: list[Segment]) -> list[list[int]]:
    """The windows that are to step: all, but a last one where the stream is endless or windows run over its ends."""
    steps_only = trace.guessed or not ends_of(trace) or any(segment.crosses_end for segment in segments)
    filled = [segment for segment in segments if segment.microbatches]
    return [list(segment.microbatches) for segment in filled if segment.step is not None or not steps_only]


def whole_size(segments: list[Segment]) -> int:
    """The most usual size above one of the windows that stepped; 0 if there is none."""
    sizes = Counter(len(s.microbatches) for s in segments if s.step is not None and len(s.microbatches) > 1)
    return max(sizes, key=lambda size: (sizes[size], size)) if sizes else 0
