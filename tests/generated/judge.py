"""From what a run recorded to the clauses of the contract that it broke, and to "was it the full-batch update?"."""

from __future__ import annotations

from typing import Any

import torch

from tests.generated.execute import CLIP_NORM, CLIP_VALUE, Event, Recorder, Setting, run
from tests.generated.generate import Program

TOLERANCE = 1e-6  # `1.0 / n` with an integer tensor n is float32: 3e-8; every wrong weight is off by 1e-2 and more
FINITE = ("list", "keep", "drop")


def settings(features: dict[str, Any]) -> list[Setting]:
    """The runs that truth is read from: K = 3 and 2, whole and partial windows, equal and short last batches."""
    if features["data"] == "tensors":
        return [Setting(3, 3, seed=1), Setting(2, 2, seed=2)]
    if features["data"] not in FINITE:
        return [Setting(3, 9, seed=1), Setting(2, 7, seed=2)]
    runs = [Setting(3, 8, seed=1), Setting(2, 5, seed=2)]
    if features["data"] != "drop":
        runs += [Setting(3, 6, short=True, seed=3), Setting(2, 5, short=True, seed=4)]
    return runs


def truth(program: Program) -> set[tuple[str, int]]:
    """The (code, line) pairs that execution shows."""
    return executed_truth(program.source, program.entry, program.features)


def executed_truth(source: str, entry: str, features: dict[str, Any]) -> set[tuple[str, int]]:
    found: set[tuple[str, int]] = set()
    by_targets = False
    for setting in settings(features):
        recorder = run(source, entry, features, setting)
        codes = judge(recorder.events, setting.k, features["marks"])
        unequal = {(code, line) for code, line in codes if code == "UNEQUAL"}
        if unequal and not setting.short:
            by_targets = True
        found |= codes
    # targets vary at equal batch sizes: ACC101; only a short batch makes the counts differ: ACC102
    return {("ACC101" if by_targets else "ACC102", line) if code == "UNEQUAL" else (code, line) for code, line in found}


def close(a: float, b: float) -> bool:
    return abs(a - b) <= TOLERANCE * max(abs(a), abs(b), 1e-300)


def passes(events: list[Event]) -> list[list[Event]]:
    """The events of each pass over the data; clears and set-up before the first pass are a pass of their own."""
    parts: list[list[Event]] = [[]]
    for event in events:
        if event.kind in ("epoch", "end"):
            parts.append([])
        else:
            parts[-1].append(event)
    return [part for part in parts if any(e.kind == "backward" for e in part)]


def judge(events: list[Event], k: int, marks: dict[str, list[int]]) -> set[tuple[str, int]]:
    """Read every clause off the events of one run."""
    found: set[tuple[str, int]] = set()
    parts = passes(events)
    per_micro = steps_every_microbatch(parts)
    leaked = False
    for part in parts:
        backwards = [i for i, e in enumerate(part) if e.kind == "backward"]
        steps = [i for i, e in enumerate(part) if e.kind == "step"]
        if per_micro:
            found |= {("ACC301", part[i].line) for i in steps}
            windows = [backwards[i : i + k] for i in range(0, len(backwards), k)]
        else:
            ends = [*steps, len(part)]
            windows = [[b for b in backwards if low < b < high] for low, high in zip([-1, *steps], ends, strict=True)]
            windows = [w for w in windows if w]
        first_steps = len([b for b in backwards if steps and b < steps[0]])
        off_by_one = not per_micro and first_steps == 1 and len(windows) > 2 and len(windows[1]) == k
        if off_by_one:
            found.add(("ACC305", marks["boundary"][0]))
        lost = not per_micro and (not steps or backwards[-1] > steps[-1])
        if lost:
            found.add(("ACC304", marks["boundary"][0]))
        for number, window in enumerate(windows):
            stepped = not (lost and number == len(windows) - 1)
            last = number == len(windows) - 1
            if stepped and not (leaked and number == 0):
                found |= judge_weights(
                    part, window, k, marks, partial=(last and not off_by_one) or (last and number > 0)
                )
        found |= judge_calls(part, backwards, windows, steps, per_micro)
        leaked = lost
    found |= judge_stale(parts, k, per_micro)
    return found


def steps_every_microbatch(parts: list[list[Event]]) -> bool:
    """A step after every single backward, in a run whose K is larger than one."""
    for part in parts:
        pending = 0
        for event in part:
            if event.kind == "backward":
                pending += 1
            if event.kind == "step":
                if pending != 1:
                    return False
                pending = 0
    return any(e.kind == "step" for part in parts for e in part)


def judge_weights(
    part: list[Event], window: list[int], k: int, marks: dict[str, list[int]], partial: bool
) -> set[tuple[str, int]]:
    """What each microbatch's loss sum is multiplied by in the update, against 1 / the count of the window."""
    members = [part[i] for i in window]
    assert all(e.extra < 1e-8 for e in members), "what backward added is not a multiple of the reference gradient"
    factor = later_factor(part, window[-1])
    weights = [e.coefficient * factor for e in members]
    total, line = sum(e.count for e in members), members[0].line
    if all(close(a, 1 / total) for a in weights):
        return set()
    if all(close(a, 1.0) for a in weights):
        return set()  # plain sums: the objective is a sum, its window weights are equal
    means = [a * e.count for a, e in zip(weights, members, strict=True)]
    found: set[tuple[str, int]] = set()
    if not all(close(m, means[0]) for m in means):
        return {("weights?", line)}
    if any(not close(e.count, members[0].count) for e in members):
        found.add(("UNEQUAL", line))
    if close(means[0], 1.0):
        return {("ACC103", line)} if len(members) > 1 else set()
    if close(means[0], 1 / k**2):
        found.add(("ACC104", marks["second_division"][0]))
        if len(members) < k and partial:
            found.add(("ACC107", line))
    elif close(means[0], 1 / k):
        if len(members) < k and partial:
            found.add(("ACC107", line))
    elif not close(means[0], 1 / len(members)):
        found.add(("weights?", line))
    return found


def later_factor(part: list[Event], last: int) -> float:
    """What the program itself multiplied the gradient by between a window's last backward and its step."""
    factor = 1.0
    previous = part[last].after
    for event in part[last + 1 :]:
        if event.kind == "backward" or previous is None or event.before is None:
            break
        size = float(previous @ previous)
        if size:
            factor *= float(event.before @ previous) / size
        if event.kind in ("step", "clear"):
            break
        previous = event.after
    return factor


def judge_calls(
    part: list[Event], backwards: list[int], windows: list[list[int]], steps: list[int], per_micro: bool
) -> set[tuple[str, int]]:
    """Clip, clear, schedule and scaler: where they stand among the backwards of their window."""
    found: set[tuple[str, int]] = set()
    inside = {i for window in windows for i in range(window[0] + 1, window[-1])}
    for i, event in enumerate(part):
        if event.kind == "clip":
            if i in inside:
                found.add(("ACC201", event.line))
            if event.scaled:
                found.add(("ACC202", event.line))
        if event.kind == "clear" and i in inside and event.before is not None and bool(event.before.any()):
            found.add(("ACC302", event.line))
        if event.kind == "unscale" and i in inside:
            found.add(("ACC307", event.line))
        if event.kind == "update" and i in inside:
            found.add(("ACC307", event.line))
        if event.kind == "sched" and i in inside:
            found.add(("ACC306", event.line))
    return found


def judge_stale(parts: list[list[Event]], k: int, per_micro: bool) -> set[tuple[str, int]]:
    """A window begins with a gradient that an earlier step has already used: reported on that step."""
    found: set[tuple[str, int]] = set()
    last_step: Event | None = None
    number = 0
    for part in parts:
        for event in part:
            if event.kind == "step":
                last_step = event
            if event.kind == "backward":
                fresh = not per_micro or number % k == 0
                if last_step is not None and fresh and event.before is not None and bool(event.before.any()):
                    found.add(("ACC303", last_step.line))
                last_step = None if not per_micro else last_step
                number += 1
        if part and part[-1].kind == "backward":
            last_step = None
    return found


# -- the full batch ------------------------------------------------------------------------------------------------


def equals_full_batch(source: str, entry: str, features: dict[str, Any]) -> bool:
    """Is every update of the program the full-batch update of its window?"""
    return not differences(source, entry, features)


def differences(source: str, entry: str, features: dict[str, Any]) -> list[str]:
    """Why a program is not the full batch: one line a difference, over all runs. Empty means equal."""
    found: list[str] = []
    for setting in settings(features):
        try:
            recorder = run(source, entry, features, setting)
        except Exception as error:  # a repair that does not run is a difference, whatever it raised
            found.append(f"K={setting.k}: {type(error).__name__}: {error}")
            continue
        found += [f"K={setting.k} total={setting.total}: {line}" for line in compare(recorder, setting, features)]
    return found


Window = tuple[torch.Tensor, float]  # the gradient of a window's loss sum, and its count


def stepped_windows(recorder: Recorder) -> list[Window]:
    """The window of each step, as the reference sees it."""
    windows, members = [], []
    for event in recorder.events:
        if event.kind in ("epoch", "end"):
            members = []
        elif event.kind == "backward":
            members.append(event)
        elif event.kind == "step" and members:
            windows.append((torch.stack([e.reference for e in members]).sum(0), sum(e.count for e in members)))
            members = []
    return windows


def compare(
    recorder: Recorder, setting: Setting, features: dict[str, Any], windows: list[Window] | None = None
) -> list[str]:
    """Each step against the reference: window, gradient before the clip, clip, stale gradients, schedule.

    `windows` replaces the windows of this process where several ranks share an update.
    """
    found = []
    expected = iter(windows if windows is not None else stepped_windows(recorder))
    for number, part in enumerate(passes(recorder.events)):
        window: list[Event] = []
        clips: list[Event] = []
        scheduled = stepped = 0
        remaining = sum(e.kind == "backward" for e in part)
        for event in part:
            if event.kind == "backward":
                window.append(event)
            elif event.kind == "clip":
                clips.append(event)
            elif event.kind == "sched":
                scheduled += 1
            elif event.kind == "step":
                stepped += 1
                where = f"pass {number} step {stepped}"
                if not window or len(window) != min(setting.k, remaining):
                    found.append(f"{where}: window of {len(window)} microbatches, {min(setting.k, remaining)} expected")
                    break
                remaining -= len(window)
                found += [f"{where}: {line}" for line in compare_step(next(expected), clips, event, features)]
                window, clips = [], []
        if window:
            found.append(f"pass {number}: {len(window)} microbatches never stepped")
        if features["sched"] != "none" and scheduled != stepped:
            found.append(f"pass {number}: {scheduled} scheduler steps for {stepped} updates")
    return found


def compare_step(window: Window, clips: list[Event], step: Event, features: dict[str, Any]) -> list[str]:
    total = 1.0 if features["division"] == "sum_only" else window[1]
    wanted = window[0] / (total or 1.0)
    found = []
    if features["clip"] != "none":
        if len(clips) != 1:
            return [f"{len(clips)} clips"]
        if clips[0].scaled:
            found.append("clipped while scaled")
        raw = clips[0].before
        if features["clip"] == "norm":
            clipped = wanted * min(1.0, CLIP_NORM / (float(wanted.norm()) + 1e-6))
        else:
            clipped = wanted.clamp(-CLIP_VALUE, CLIP_VALUE)
    else:
        raw, clipped = step.before, wanted
    assert raw is not None
    assert step.before is not None
    for name, have, want in (("gradient before the clip", raw, wanted), ("gradient at the step", step.before, clipped)):
        scale = step.scale if step.scaled else 1.0
        error = float((have / scale - want).norm()) / (float(want.norm()) or 1.0)
        if error > TOLERANCE:
            found.append(f"{name} off by {error:.2g}")
    return found
