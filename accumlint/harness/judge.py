"""Holds a recorded run against the full batch, step by step, at the parameters that the loop itself had there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import torch

from accumlint.harness.clips import as_clipped_by_hand, is_clipped, judge_clips
from accumlint.harness.diagnosis import Weighing, best_ratio, name_weight_faults, recover_coefficients
from accumlint.harness.recorder import Recorder, Step
from accumlint.harness.reference import (
    Count,
    Gradient,
    LossSum,
    clip_gradient,
    full_batch_gradient,
    loss_gradient,
    scalar_loss,
    trainable_parameters,
)
from accumlint.harness.report import Fault, FaultKind, Window
from accumlint.harness.tolerances import l2_norm, relative_error


@dataclass(frozen=True)
class Expectation:
    """What a right loop does with these microbatches."""

    microbatches: Sequence[Any]
    counts: Sequence[float]
    loss_sum: LossSum
    count: Count
    accumulation_steps: int
    max_norm: float | None
    norm_type: float
    clip_value: float | None
    tolerance: float
    ranks: tuple[int, ...] = (0,)  # how many of the microbatches, which stand in order, belong to each rank

    @property
    def own(self) -> int:
        """The microbatches that the recorded process saw: those of rank 0."""
        return len(self.microbatches) if len(self.ranks) == 1 else self.ranks[0]

    @property
    def ends(self) -> list[int]:
        """After how many of its own microbatches the recorded process should step."""
        steps = self.accumulation_steps
        return [min(start + steps, self.own) for start in range(0, self.own, steps)]

    @property
    def windows(self) -> list[tuple[int, ...]]:
        """The microbatches of each step, those of all ranks."""
        sizes = self.ranks if len(self.ranks) > 1 else (len(self.microbatches),)
        windows: list[tuple[int, ...]] = [()] * len(self.ends)
        first = 0
        for size in sizes:
            for index in range(len(windows)):
                start = index * self.accumulation_steps
                windows[index] += tuple(range(first + start, first + min(start + self.accumulation_steps, size)))
            first += size
        return windows

    def rank_of(self, microbatch: int) -> int:
        return next(r for r, end in enumerate(accumulate(self.ranks)) if microbatch < end) if self.ranks[1:] else 0

    def clip(self, gradient: Gradient) -> Gradient:
        return clip_gradient(gradient, self.max_norm, norm_type=self.norm_type, clip_value=self.clip_value)


@dataclass
class Judgement:
    windows: tuple[Window, ...] = ()
    faults: list[Fault] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def behind_clip(self, unclipped: Judgement) -> Judgement:
        """Join with a run in which the clip, which could not be seen, was not active: that one shows the weights."""
        vague = {FaultKind.WRONG_COUNT, FaultKind.WRONG_SCALE, FaultKind.WEIGHTS} if unclipped.faults else set()
        own = [fault for fault in self.faults if fault.kind not in vague]
        return unclipped.joined(Judgement((), own, self.notes))

    def joined(self, other: Judgement) -> Judgement:
        """Add the faults of a second run that the first did not show."""
        kinds = {fault.kind for fault in self.faults}
        more = [fault for fault in other.faults if fault.kind not in kinds]
        return Judgement(self.windows, self.faults + more, self.notes + other.notes)


def judge(recorder: Recorder, model: torch.nn.Module, expectation: Expectation) -> Judgement:
    """Return the windows with their numbers and the faults.

    `model` computes the references. It is a copy that the loop never had, so nothing that the loop did to its own
    (hooks, buffers, replaced layers) can enter; only the parameters are taken over, and put back afterwards.
    """
    judgement = Judgement()
    judgement.faults += judge_steps(recorder, expectation)
    misplaced = any(f.kind in (FaultKind.STEP_EACH, FaultKind.BOUNDARY) for f in judgement.faults)
    judgement.faults += _judge_changes(recorder)
    if recorder.frozen:
        judgement.notes.append(f"the loop freezes {len(recorder.frozen)} parameters; they are not compared")
    parameters = trainable_parameters(model)
    final = {name: p.detach().clone() for name, p in parameters.items()}
    windows, wrong = [], []
    for index, (step, members) in enumerate(zip(recorder.steps, expectation.windows, strict=False)):
        _load(parameters, step.before)
        window, weighing = _judge_window(index, step, members, recorder, model, expectation, judgement)
        windows.append(window)
        if weighing is not None and not misplaced:
            wrong.append(weighing)
    _load(parameters, final)
    judgement.windows = tuple(windows)
    judgement.faults = _gathered(judgement.faults) + name_weight_faults(wrong)
    missing = len(expectation.windows) - len(windows)
    if not judgement.faults and (missing or len(recorder.steps) != len(windows)):
        text = f"{len(recorder.steps)} steps where {len(expectation.windows)} belong"
        judgement.faults.append(Fault(FaultKind.BOUNDARY, text))
    if misplaced and not any(w.error > expectation.tolerance for w in windows):
        judgement.notes.append("the steps are misplaced, though the windows that could be compared agree")
    return judgement


def _judge_changes(recorder: Recorder) -> list[Fault]:
    """Parameters may change in optimizer steps only."""
    states = [recorder.initial, *(state for step in recorder.steps for state in (step.before, step.after))]
    states.append(recorder.final)
    for index, (earlier, later) in enumerate(zip(states[::2], states[1::2], strict=True)):
        if any(not _is_same(value, later[name]) for name, value in earlier.items() if name in later):
            place = f"after step {index}" if index else "before the first step"
            return [Fault(FaultKind.UPDATE, f"they change outside of the optimizer {place}")]
    return []


def _is_same(left: torch.Tensor, right: torch.Tensor) -> bool:
    """Whether they are equal; NaN, which an earlier fault left, is equal to NaN."""
    return bool(((left == right) | (left.isnan() & right.isnan())).all())


def judge_steps(recorder: Recorder, expectation: Expectation) -> list[Fault]:
    """Compare where the loop steps with where the windows end; backward calls tell microbatches apart."""
    faults = []
    total, calls, ends = expectation.own, recorder.total_backwards, expectation.ends
    per_microbatch = calls // total if calls and calls % total == 0 else 0
    if per_microbatch:
        places = [step.total_backwards / per_microbatch for step in recorder.steps]
        if places != ends:
            shown = ", ".join(f"{place:g}" for place in places)
            belong = ", ".join(map(str, ends))
            if places == list(range(1, total + 1)):
                text = f"{total} steps where {len(ends)} belong (after microbatches {belong})"
                faults.append(Fault(FaultKind.STEP_EACH, text))
            elif places != ends[: len(places)]:
                text = f"steps after microbatches {shown} where {belong} belong"
                faults.append(Fault(FaultKind.BOUNDARY, text))
    elif len(recorder.steps) > len(ends):
        faults.append(Fault(FaultKind.BOUNDARY, f"{len(recorder.steps)} steps where {len(ends)} belong"))
    if recorder.backwards:
        left = recorder.backwards // per_microbatch if per_microbatch else recorder.backwards
        text = f"{left} microbatches after the last step are never used; step once more for the partial window"
        faults.append(Fault(FaultKind.LEFTOVER, text))
    return faults


def _judge_window(
    index: int,
    step: Step,
    members: tuple[int, ...],
    recorder: Recorder,
    model: torch.nn.Module,
    expectation: Expectation,
    judgement: Judgement,
) -> tuple[Window, Weighing | None]:
    tolerance, names = expectation.tolerance, recorder.held_names() - recorder.frozen
    batch = [expectation.microbatches[k] for k in members]
    counts = tuple(expectation.counts[k] for k in members)
    reference = full_batch_gradient(model, batch, expectation.loss_sum, expectation.count)
    expected = {n: g * recorder.scale for n, g in reference.items() if n in names}
    clipped = expectation.clip(expected)
    used = {n: g for n, g in step.gradient.items() if n in names}
    whole_clips = [clip for clip in step.clips if clip.after == step.backwards]
    before_clip = whole_clips[0].before if whole_clips else used
    before = {n: g for n, g in before_clip.items() if n in names}
    is_hidden = False
    if not whole_clips and is_clipped(expected, clipped):
        clipped = as_clipped_by_hand(used, expected, clipped, tolerance)
        is_hidden = relative_error(used, clipped) <= tolerance
    error = relative_error(before, clipped if is_hidden else expected)
    clipped_error = relative_error(used, clipped)
    ratio = best_ratio(before, expected, tolerance)
    coefficients = _recover(before, members, model, expectation, expected, recorder.scale)
    total = sum(counts)
    window = Window(
        microbatches=members,
        counts=counts,
        expected=tuple(n / total if total else 0.0 for n in counts),
        weights=tuple(None if c is None else c * n for c, n in zip(coefficients, counts, strict=True)),
        error=error,
        clipped_error=clipped_error,
        update_error=_judge_update(index, step, clipped, clipped_error <= tolerance, expectation, judgement),
        ratio=ratio,
        norm=l2_norm(before) / recorder.scale,
        expected_norm=l2_norm(expected) / recorder.scale,
        clips=len(step.clips),
        events=_events(step, tuple(k for k in members if expectation.rank_of(k) == 0)),
    )
    faults = judgement.faults
    if not all(bool(torch.isfinite(g).all()) for g in used.values()):
        empty = f"; microbatch {members[counts.index(0)]} has no valid target" if 0 in counts else ""
        faults.append(Fault(FaultKind.NON_FINITE, f"at step {index + 1}{empty}", (index,)))
        return window, None
    explained = _judge_clear(index, step, faults)
    explained |= judge_clips(
        index, step, used, expected, clipped, tolerance, expectation.max_norm, expectation.clip_value, faults
    )
    if is_hidden and recorder.scale == 1.0:
        judgement.notes.append(
            "the loop clips by other means than torch.nn.utils: the gradient before it was seen in a second run only"
        )
    if error <= tolerance:
        if clipped_error > tolerance and not explained:
            faults.append(Fault(FaultKind.CLIP_WRONG, f"relative error {clipped_error:.1e}", (index,)))
        return window, None
    if explained:
        return window, None
    owners = tuple(expectation.rank_of(k) for k in members)
    steps = expectation.accumulation_steps * len(expectation.ranks)
    return window, Weighing(index, coefficients, counts, steps, ratio, owners, len(expectation.ranks))


def _events(step: Step, own: tuple[int, ...]) -> tuple[tuple[int, str], ...]:
    """What the recorded process did in a window, in order, by its own microbatches."""
    calls = step.backwards
    events: list[tuple[int, str]] = []
    for call in range(1, calls + 1):
        microbatch = own[min((call - 1) * len(own) // calls, len(own) - 1)]
        events.append((microbatch, "backward"))
        events += [(microbatch, f"clip ({clip.limit:g})") for clip in step.clips if clip.after == call]
        events += [(microbatch, "clear") for after in step.lost if after == call]
    return (*events, (own[-1], "step"))


def _recover(
    gradient: Gradient,
    members: tuple[int, ...],
    model: torch.nn.Module,
    expectation: Expectation,
    like: Gradient,
    scale: float,
) -> tuple[float | None, ...]:
    """Return the coefficients of the window's loss sums, also if the gradient holds other microbatches' too."""
    sums = [
        loss_gradient(model, scalar_loss(expectation.loss_sum, model, microbatch))
        for microbatch in expectation.microbatches
    ]
    sums = [{n: g * scale for n, g in s.items() if n in like} for s in sums]
    found = recover_coefficients(gradient, [sums[k] for k in members], like, expectation.tolerance)
    if all(c is None for c in found):
        everything = recover_coefficients(gradient, sums, like, expectation.tolerance)
        found = tuple(everything[k] for k in members)
    return tuple(None if expectation.counts[k] == 0 else c for k, c in zip(members, found, strict=True))


def _judge_clear(index: int, step: Step, faults: list[Fault]) -> bool:
    if step.lost:
        text = f"cleared after backward {', '.join(map(str, step.lost))} of {step.backwards}; clear only after the step"
        faults.append(Fault(FaultKind.LOST, text, (index,)))
    if step.stale:
        faults.append(Fault(FaultKind.STALE, "clear the gradient after each step", (index,)))
    return bool(step.lost) or step.stale


def _judge_update(
    index: int, step: Step, clipped: Gradient, is_right: bool, expectation: Expectation, judgement: Judgement
) -> float:
    """Return how far the change of the parameters is from that which the right gradient makes."""
    if step.apply is None:
        return 0.0
    try:
        right, own = step.apply(clipped), step.apply(step.gradient)
    except Exception as failure:
        judgement.notes.append(f"the optimizer's step could not be repeated on a copy ({failure}); update not compared")
        return 0.0
    after = {n: step.after[n] for n in right}
    size = l2_norm({n: p.double() - step.before[n].double() for n, p in right.items()})
    rounding = 64 * max(float(torch.finfo(p.dtype).eps) for p in right.values()) * l2_norm(after)

    def distance(parameters: Gradient) -> float:
        delta = l2_norm({n: p.double() - parameters[n].double() for n, p in after.items()})
        return 0.0 if delta <= rounding else delta / size if size else math.inf

    error = distance(right)
    if distance(own) > expectation.tolerance:
        text = f"relative error {distance(own):.1e} against the same optimizer with the same gradient"
        judgement.faults.append(Fault(FaultKind.UPDATE, text, (index,)))
    elif is_right and error > expectation.tolerance:
        judgement.notes.append(
            f"the gradient agrees, but the optimizer amplifies its rounding (update error {error:.1e}), as Adam does "
            "where a gradient is zero in exact arithmetic"
        )
    return error


def _load(parameters: dict[str, torch.Tensor], values: Gradient) -> None:
    with torch.no_grad():
        for name, parameter in parameters.items():
            parameter.copy_(values[name])


def _gathered(faults: Sequence[Fault]) -> list[Fault]:
    """Join the faults of one kind over the windows, with the first one's message."""
    joined: dict[FaultKind, Fault] = {}
    for fault in faults:
        first = joined.get(fault.kind)
        joined[fault.kind] = Fault(fault.kind, first.message, first.windows + fault.windows) if first else fault
    return list(joined.values())
