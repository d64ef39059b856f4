"""`accumcheck`: does a training loop make the full-batch update? Like `torch.autograd.gradcheck`, for accumulation."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from accumlint.harness.clips import guess_max_norm
from accumlint.harness.deadline import Deadline
from accumlint.harness.errors import (
    ControlFailedError,
    HarnessError,
    NeverSteppedError,
    TrainingLoopError,
)
from accumlint.harness.forced import force
from accumlint.harness.inputs import check_reference, find_untested, get_used_dtype, read_counts
from accumlint.harness.judge import Expectation, Judgement, judge
from accumlint.harness.precision import choose_tolerance
from accumlint.harness.recorder import Recorder
from accumlint.harness.reference import Count, LossSum, read_count, scalar_loss
from accumlint.harness.report import Fault, FaultKind, Report
from accumlint.harness.twin import MakeOptimizer, Twin, cast_data, find_coupling, make_deterministic, make_twin

Train = Callable[[Any, Any, torch.optim.Optimizer], Any]


def accumcheck(
    train: Train,
    model: torch.nn.Module,
    microbatches: Sequence[Any],
    *,
    loss_sum: LossSum,
    count: Count,
    optimizer: MakeOptimizer | torch.optim.Optimizer | None = None,
    accumulation_steps: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
    dtype: torch.dtype | None = torch.float64,
    tolerance: float | None = None,
    merge: Callable[[Sequence[Any]], Any] | None = None,
    seed: int = 0,
    timeout: float | None = 120.0,
    max_backwards: int | None = None,
    force_cases: bool = True,
    world_size: int = 1,
    wrap: str = "ddp",
) -> Report:
    """Run `train(model, microbatches, optimizer)` on copies and hold each of its updates against the full batch.

    `train` makes one pass over the list of microbatches with a window of `accumulation_steps` (read off its steps if
    not given). `loss_sum(model, microbatch)` is the scalar sum of the losses of a microbatch and `count(microbatch)`
    its valid targets. `optimizer` is a function of the parameters (`lambda p: SGD(p, lr=0.1)`, the default), or an
    optimizer of this very model, which is copied with it. `max_norm`, `norm_type` and `clip_value` say how the loop
    clips; a clip by `torch.nn.utils` is noticed without them. Model and floating-point data are cast to `dtype` (None:
    left as they are). `merge(microbatches)` makes one batch of several, to see whether the loss couples samples;
    without it, concatenation along dimension 0 is tried. If no microbatch is without targets, or all windows are full,
    the loop also runs on microbatches that have such (`force_cases=False`: it does not). With `world_size` > 1 it runs
    on that many gloo processes, each with its own `microbatches[rank]`; `wrap` is "ddp", "fsdp2" or "none" (see
    `ranks`).

    Returns a `Report`; `report.equivalent` is the verdict. Raises a `HarnessError` if there can be none: equal counts,
    a model that cannot be copied, a reference that is NaN, a loop that raises, never steps or does not end.
    """
    if world_size > 1:
        from accumlint.harness.ranks import check_ranks

        return check_ranks(
            train, model, microbatches, loss_sum=loss_sum, count=count, optimizer=optimizer,
            accumulation_steps=accumulation_steps, max_norm=max_norm, norm_type=norm_type, clip_value=clip_value,
            dtype=dtype, tolerance=tolerance, merge=merge, seed=seed, timeout=timeout, max_backwards=max_backwards,
            world_size=world_size, wrap=wrap,
        )  # fmt: skip
    if accumulation_steps is not None and accumulation_steps < 1:
        raise HarnessError(f"accumulation_steps must be at least 1, not {accumulation_steps}")
    data = [cast_data(microbatch, dtype) for microbatch in microbatches]
    counts = read_counts(data, count)
    limit = max_backwards or 100 + 50 * len(data)

    def run(loop: Train, scale: float = 1.0, given: Sequence[Any] = data) -> Recorder:
        twin = make_twin(model, optimizer, dtype)
        make_deterministic(twin, data, loss_sum, count)
        recorder = Recorder(twin.model, scale=scale, max_backwards=limit)
        run_loop(loop, recorder, twin, given, seed, timeout)
        return recorder

    probe = make_twin(model, optimizer, dtype)
    reference = check_reference(probe, data, counts, loss_sum, count)
    make_deterministic(probe, data, loss_sum, count)
    used = get_used_dtype(probe.model)
    recorder = run(train)
    assumptions: list[str] = []
    steps = accumulation_steps or infer_accumulation_steps(recorder, len(data), assumptions)
    base = choose_tolerance(
        used, tolerance, (recorder.narrowest, reference.narrowest),
        integer_division=recorder.integer_division, assumptions=assumptions,
    )  # fmt: skip
    seen = next((c for step in recorder.steps for c in step.clips if c.function == "clip_grad_norm_"), None)
    if max_norm is None and seen is not None:
        max_norm, norm_type = seen.limit, seen.norm_type
        assumptions.append(f"clip threshold {max_norm:g} read off the loop")
    values = next((c for step in recorder.steps for c in step.clips if c.function == "clip_grad_value_"), None)
    if clip_value is None and values is not None:
        clip_value = values.limit
        assumptions.append(f"clip value {clip_value:g} read off the loop")
    expectation = Expectation(data, counts, loss_sum, count, steps, max_norm, norm_type, clip_value, base)
    judged = judge(recorder, probe.model, expectation)
    if max_norm is None and clip_value is None:
        max_norm = guess_max_norm(recorder, judged.windows)
        if max_norm is not None:
            assumptions.append(f"the loop clips at {max_norm:g} by other means than torch.nn.utils")
            expectation = replace(expectation, max_norm=max_norm)
            judged = judge(recorder, probe.model, expectation)
    limits, untested = list(probe.limits), find_untested(counts, steps)
    again = choose_scale(judged, recorder, max_norm)
    if again is not None:
        second = judge(run(train, again), probe.model, expectation)
        judged = judged.behind_clip(second) if again < 1 else judged.joined(second)
    faults = list(judged.faults)
    forced = force(data, counts, steps, probe.model, loss_sum, count) if force_cases and not faults else None
    if forced is not None:
        faults += check_forced(*forced, lambda given: run(train, given=given), probe.model, expectation, untested)
    coupled = find_coupling(probe, data, loss_sum, count, merge)
    faults += judge_coupling(*coupled, tolerance=base, untested=untested)
    control_error = run_control(run, probe.model, expectation)
    return Report(
        equivalent=not faults,
        faults=tuple(faults),
        windows=judged.windows,
        counts=tuple(counts),
        accumulation_steps=steps,
        steps=len(recorder.steps),
        expected_steps=len(expectation.windows),
        clips=sum(len(step.clips) for step in recorder.steps),
        tolerance=base,
        dtype=str(used).removeprefix("torch."),
        control_error=control_error,
        assumptions=tuple(assumptions),
        limits=tuple(limits + [note for note in judged.notes if note not in limits]),
        untested=tuple(untested),
    )


def run_loop(
    loop: Train, recorder: Recorder, twin: Twin, data: Sequence[Any], seed: int, timeout: float | None
) -> None:
    """Run the loop on its own list; raises what the harness raises, or TrainingLoopError for all else."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with Deadline(timeout), recorder.recording(loop):
                loop(twin.model, copy.deepcopy(list(data)), twin.optimizer)  # it may change its data in place
        except HarnessError:
            raise
        except (Exception, SystemExit) as error:
            raise TrainingLoopError(f"the loop raised {type(error).__name__}: {error}") from error
    recorder.raise_refused()
    recorder.finish()
    if not recorder.steps:
        raise NeverSteppedError(
            f"the loop made {recorder.total_backwards} backward calls but no optimizer step on the model it was given; "
            "does its optimizer hold the parameters of another copy?"
        )


def infer_accumulation_steps(recorder: Recorder, microbatches: int, assumptions: list[str]) -> int:
    """Read the window's length off the steps: the longest stretch between two. One step a microbatch: one window."""
    calls = recorder.total_backwards
    if len(recorder.steps) == 1 and recorder.backwards == 0:
        longest = microbatches
    elif calls == 0 or calls % microbatches:
        raise HarnessError(
            f"{calls} backward calls for {microbatches} microbatches and {len(recorder.steps)} steps: the window's "
            "length cannot be read off; pass accumulation_steps="
        )
    else:
        longest = max(step.backwards for step in recorder.steps) * microbatches // calls
    if longest <= 1:
        longest = microbatches
    assumptions.append(f"accumulation steps {longest} read off the loop's steps")
    return longest


FORCED = {"without targets": "without a valid target", "partial window": "no partial window"}


def check_forced(
    data: list[Any],
    done: str,
    run: Callable[[list[Any]], Recorder],
    model: torch.nn.Module,
    expectation: Expectation,
    untested: list[str],
) -> list[Fault]:
    """Run the loop on microbatches that hold what the given ones lack; `untested` loses what this shows."""
    counts = [read_count(expectation.count, microbatch) for microbatch in data]
    try:
        recorder = run(data)
    except HarnessError as error:  # it may know its own data in other ways
        untested.append(f"{done}: on data with that, {error}")
        return []
    judged = judge(recorder, model, replace(expectation, microbatches=data, counts=counts))
    shown = [text for part, text in FORCED.items() if part in done]
    untested[:] = [text for text in untested if not any(part in text for part in shown)]
    return [replace(fault, message=f"with {done} forced: {fault.message}") for fault in judged.faults]


def choose_scale(judged: Judgement, recorder: Recorder, max_norm: float | None) -> float | None:
    """Return a factor for a second run that shows what the first could not, or None.

    Gradients are linear in it and the clip is not: a clip that was never active is made active, and behind a clip
    that is not torch's own, the unclipped gradient becomes visible.
    """
    norms = [w.expected_norm for w in judged.windows if w.expected_norm > 0]
    if max_norm is None or not norms or max_norm <= 0:
        return None
    if max(norms) <= max_norm:
        return 10 * max_norm / min(norms)
    if any(not step.clips for step in recorder.steps):
        return 1e-4 * max_norm / max(norms)
    return None


def judge_coupling(error: float | None, reason: str, *, tolerance: float, untested: list[str]) -> list[Fault]:
    if error is None:
        untested.append(f"whether the loss couples samples ({reason}); pass merge=")
        return []
    if error <= max(1e-7, tolerance):
        return []
    text = f"merging the microbatches changes the gradient by {error:.1e}: no weights can reproduce the full batch"
    return [Fault(FaultKind.BATCH_COUPLED, text)]


def naive_loop(loss_sum: LossSum, count: Count, accumulation_steps: int) -> Train:
    """Return the negative control: a loop that weights every microbatch of a window equally."""

    def naive(model: Any, microbatches: Any, optimizer: torch.optim.Optimizer) -> None:
        for start in range(0, len(microbatches), accumulation_steps):
            window = microbatches[start : start + accumulation_steps]
            optimizer.zero_grad()
            for microbatch in window:
                n = max(read_count(count, microbatch), 1.0)
                loss = scalar_loss(loss_sum, model, microbatch)
                if loss.requires_grad:
                    (loss / (n * max(len(window), 2))).backward()  # windows of one: half the gradient
            optimizer.step()

    return naive


def run_control(run: Callable[[Train], Recorder], model: torch.nn.Module, expectation: Expectation) -> float:
    """Check the negative control. Raises ControlFailedError unless it is caught."""
    naive = naive_loop(expectation.loss_sum, expectation.count, expectation.accumulation_steps)
    judged = judge(run(naive), model, expectation)
    several = [w for w in judged.windows if len(w.microbatches) > 1] or judged.windows
    error = max(window.error for window in several)
    if not error > 10 * expectation.tolerance:
        raise ControlFailedError(
            f"a loop that weights microbatches equally differs from the full batch by {error:.1e} only (tolerance "
            f"{expectation.tolerance:g}): these data cannot tell right from wrong; make the counts of a window differ"
        )
    return error
