"""`accumcheck`: does a training loop make the full-batch update? Like `torch.autograd.gradcheck`, for accumulation."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import torch

from accumlint.harness.clips import guess_max_norm
from accumlint.harness.errors import (
    ControlFailedError,
    EqualCountsError,
    HarnessError,
    NeverSteppedError,
    NonFiniteError,
    TrainingLoopError,
)
from accumlint.harness.judge import Expectation, Judgement, judge
from accumlint.harness.precision import PrecisionWatch, choose_tolerance, least_precise
from accumlint.harness.recorder import Recorder
from accumlint.harness.reference import Count, LossSum, full_batch_gradient, read_count, scalar_loss
from accumlint.harness.report import Fault, FaultKind, Report
from accumlint.harness.tolerances import l2_norm
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
    without it, concatenation along dimension 0 is tried. With `world_size` > 1 the loop runs on that many gloo
    processes, each with its own `microbatches[rank]`; `wrap` is "ddp", "fsdp2" or "none" (see `ranks`).

    Returns a `Report`; `report.equivalent` is the verdict. Raises a `HarnessError` if there can be none: equal counts,
    a model that cannot be copied, a reference that is NaN, a loop that raises, never steps or does not end.
    """
    if world_size > 1:
        from accumlint.harness.ranks import check_ranks

        return check_ranks(
            train, model, microbatches, loss_sum=loss_sum, count=count, optimizer=optimizer,
            accumulation_steps=accumulation_steps, max_norm=max_norm, dtype=dtype, tolerance=tolerance, seed=seed,
            timeout=timeout, world_size=world_size, wrap=wrap,
        )  # fmt: skip
    if accumulation_steps is not None and accumulation_steps < 1:
        raise HarnessError(f"accumulation_steps must be at least 1, not {accumulation_steps}")
    data = [cast_data(microbatch, dtype) for microbatch in microbatches]
    counts = read_counts(data, count)
    limit = max_backwards or 100 + 50 * len(data)

    def run(loop: Train, scale: float = 1.0) -> Recorder:
        twin = make_twin(model, optimizer, dtype)
        make_deterministic(twin, data, loss_sum, count)
        recorder = Recorder(twin.model, scale=scale, max_backwards=limit, timeout=timeout)
        run_loop(loop, recorder, twin, data, seed)
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


def read_counts(microbatches: Sequence[Any], count: Count) -> list[float]:
    """Return the counts; raises if they are no counts, or so equal that a wrong weighting would pass."""
    if not microbatches:
        raise HarnessError("no microbatches were given")
    try:
        counts = [read_count(count, microbatch) for microbatch in microbatches]
    except Exception as error:
        raise HarnessError(f"count(microbatch) raised {type(error).__name__}: {error}") from error
    if any(not math.isfinite(n) or n < 0 for n in counts):
        raise HarnessError(f"counts must be finite and not negative: {counts}")
    if sum(counts) == 0:
        raise NonFiniteError("no microbatch has a valid target: there is nothing to compare")
    if len({n for n in counts if n > 0}) == 1 and len(counts) > 1:
        raise EqualCountsError(
            f"every microbatch with targets has the same count, {max(counts):g}: a loop that weights microbatches "
            "equally would pass; give microbatches with different numbers of valid targets, one of them without any"
        )
    return counts


def check_reference(
    twin: Twin, data: Sequence[Any], counts: Sequence[float], loss_sum: LossSum, count: Count
) -> PrecisionWatch:
    """Raise if the reference cannot be computed, is not finite, or is zero; return how precise it is."""
    watch = PrecisionWatch()
    try:
        with watch:
            gradient = full_batch_gradient(twin.model, data, loss_sum, count)
        for k, microbatch in enumerate(data):
            loss = float(scalar_loss(loss_sum, twin.model, microbatch).detach())
            if not math.isfinite(loss):
                hint = "; it has no target: use a sum, not a mean" if counts[k] == 0 else ""
                raise NonFiniteError(f"loss_sum of microbatch {k} is {loss}{hint}")
    except HarnessError:
        raise
    except Exception as error:
        raise HarnessError(f"loss_sum(model, microbatch) failed: {type(error).__name__}: {error}") from error
    norm = l2_norm(gradient)
    if not math.isfinite(norm) or norm == 0:
        raise NonFiniteError(f"the full-batch gradient has norm {norm}: there is nothing to compare")
    return watch


def run_loop(loop: Train, recorder: Recorder, twin: Twin, data: Sequence[Any], seed: int) -> None:
    """Run the loop on its own list; raises what the harness raises, or TrainingLoopError for all else."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        try:
            with recorder.recording(loop):
                loop(twin.model, copy.deepcopy(list(data)), twin.optimizer)  # it may change its data in place
        except HarnessError:
            raise
        except (Exception, SystemExit) as error:
            raise TrainingLoopError(f"the loop raised {type(error).__name__}: {error}") from error
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


def get_used_dtype(model: torch.nn.Module) -> torch.dtype:
    """Return the lowest precision among the trainable parameters."""
    return least_precise(p.dtype for p in model.parameters() if p.requires_grad)


def find_untested(counts: Sequence[float], steps: int) -> list[str]:
    untested = []
    if 0 not in counts:
        untested.append("no microbatch without a valid target was given")
    if len(counts) % steps == 0:
        untested.append(f"no partial window: {len(counts)} microbatches are whole windows of {steps}")
    for start in range(0, len(counts), steps):
        window = [n for n in counts[start : start + steps] if n > 0]
        if len(window) > 1 and len(set(window)) == 1:
            untested.append(f"the counts of microbatches {start}-{start + len(window) - 1} are equal")
    return untested


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
