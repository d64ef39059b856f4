"""Clips: how often, where, at which threshold, and those that are not torch's, which only their result shows."""

from __future__ import annotations

import math
from collections.abc import Sequence

from accumlint.harness.diagnosis import best_ratio
from accumlint.harness.recorder import Recorder, Step
from accumlint.harness.reference import Gradient
from accumlint.harness.report import Fault, FaultKind, Window, show_number
from accumlint.harness.tolerances import l2_norm, relative_error


def judge_clips(
    index: int,
    step: Step,
    used: Gradient,
    expected: Gradient,
    clipped: Gradient,
    tolerance: float,
    max_norm: float | None,
    clip_value: float | None,
    faults: list[Fault],
) -> bool:
    """Add the faults of clipping; true if one of them explains a wrong gradient."""
    early = [clip for clip in step.clips if clip.after < step.backwards]
    whole = [clip for clip in step.clips if clip.after == step.backwards]
    found: list[Fault] = []
    if early:
        text = f"{len(step.clips)} clips where 1 belongs, {len(early)} of them before the window's last backward"
        found.append(Fault(FaultKind.CLIP_EACH, text, (index,)))
    for function in ("clip_grad_norm_", "clip_grad_value_"):
        times = sum(clip.function == function for clip in whole)
        if times > 1:
            faults.append(Fault(FaultKind.CLIP_TWICE, f"{times} calls of {function}", (index,)))
    norm_clips = [clip for clip in whole if clip.function == "clip_grad_norm_"]
    if max_norm is not None and norm_clips and not math.isclose(norm_clips[0].limit, max_norm):
        text = f"{norm_clips[0].limit:g} where {max_norm:g} belongs"
        found.append(Fault(FaultKind.CLIP_THRESHOLD, text, (index,)))
    changed = bool(whole) and relative_error(used, {n: whole[-1].result.get(n, used[n]) for n in used}) > 1e-14
    if changed and not early:
        factor = best_ratio(used, whole[-1].result, tolerance)
        text = f"the gradient is multiplied by {show_number(factor)} after the clip; divide first, clip last"
        found.append(Fault(FaultKind.CLIP_BEFORE_DIVISION, text, (index,)))
    wants_clip = max_norm is not None or clip_value is not None
    if wants_clip and not step.clips and is_clipped(expected, clipped) and relative_error(used, expected) <= tolerance:
        text = f"norm {l2_norm(used):.3g} where {l2_norm(clipped):.3g} belongs"
        found.append(Fault(FaultKind.CLIP_MISSING, text, (index,)))
    faults += found
    return bool(found)


def is_clipped(expected: Gradient, clipped: Gradient) -> bool:
    return relative_error(clipped, expected) > 1e-9


def as_clipped_by_hand(used: Gradient, expected: Gradient, clipped: Gradient, tolerance: float) -> Gradient:
    """Return `clipped`, with the norm that the loop's own clip gives if that is the threshold but for rounding.

    Torch divides by the norm plus 1e-6; clips by hand and those of frameworks may leave that out.
    """
    norm, wanted = l2_norm(used), l2_norm(clipped)
    if not math.isclose(norm, wanted, rel_tol=_clip_slack(wanted)):
        return clipped
    scaled = {name: g * (norm / l2_norm(expected)) for name, g in expected.items()}
    return scaled if relative_error(used, scaled) <= tolerance else clipped


def guess_max_norm(recorder: Recorder, windows: Sequence[Window]) -> float | None:
    """Return the norm that several used gradients share and that larger gradients belong to, or None.

    It is the threshold of a clip that is not torch's: no unclipped gradients have one norm to five digits by chance.
    """
    if any(step.clips for step in recorder.steps):
        return None
    norms = [l2_norm(step.gradient) for step in recorder.steps]
    largest = max(norms, default=0.0)
    slack = _clip_slack(largest) if 0 < largest < math.inf else 0.0
    if not slack or sum(norm >= largest * (1 - slack) for norm in norms) < 2:
        return None
    if not any(window.expected_norm > largest * 1.001 for window in windows):
        return None
    short = float(f"{largest:.4g}")
    return short if math.isclose(short, largest, rel_tol=slack) else largest


def _clip_slack(threshold: float) -> float:
    """How far, relatively, a clipped norm lies from the threshold, whether or not 1e-6 is added to the norm."""
    return 1e-5 + 2e-6 / threshold
