"""From numbers to a name: what kind of loop gives these weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate

import torch

from accumlint.harness.reference import Gradient
from accumlint.harness.report import Fault, FaultKind, show_number, show_numbers

NEAR = 1e-5  # how close recovered numbers must be to a named pattern


@dataclass(frozen=True)
class Weighing:
    """One wrong window: `coefficients` of the loss sums (None: no target, so nothing can be said), and what belongs."""

    index: int
    coefficients: tuple[float | None, ...]
    counts: tuple[float, ...]
    accumulation_steps: int
    ratio: float | None
    ranks: tuple[int, ...] = ()  # the rank of each microbatch
    world_size: int = 1

    @property
    def total(self) -> float:
        return sum(self.counts)

    @property
    def known(self) -> list[tuple[float, float, float]]:
        """(coefficient, count, count so far) of the microbatches that have targets."""
        rows = zip(self.coefficients, self.counts, accumulate(self.counts), strict=True)
        return [(c, n, so_far) for c, n, so_far in rows if c is not None]

    def all_equal(self, value: Callable[[float, float, float], float], to: float) -> bool:
        return bool(self.known) and all(math.isclose(value(*row), to, rel_tol=NEAR) for row in self.known)

    def coefficients_are(self, to: float) -> bool:
        return self.all_equal(lambda c, n, so_far: c, to)

    def means_are(self, to: float) -> bool:
        return self.all_equal(lambda c, n, so_far: c * n, to)

    @property
    def is_scale(self) -> bool:
        return self.ratio is not None


def _flatten(gradient: Gradient, names: Sequence[str], like: Gradient) -> torch.Tensor:
    parts = [gradient[n] if n in gradient else torch.zeros_like(like[n]) for n in names]
    return torch.cat([part.detach().double().reshape(-1) for part in parts])


def recover_coefficients(
    gradient: Gradient, sums: Sequence[Gradient], like: Gradient, tolerance: float
) -> tuple[float | None, ...]:
    """Return x with `gradient` = sum of x_k * sums_k by least squares; None where sums_k is zero.

    All are None if the sums are linearly dependent or the gradient is no combination of them.
    """
    names = sorted(like)
    columns = [_flatten(s, names, like) for s in sums]
    given = [k for k, column in enumerate(columns) if float(column.norm()) > 0]
    nothing: tuple[float | None, ...] = (None,) * len(sums)
    target = _flatten(gradient, names, like)
    if not given or not bool(torch.isfinite(target).all()):
        return nothing
    matrix = torch.stack([columns[k] / columns[k].norm() for k in given], dim=1)
    spectrum = torch.linalg.svdvals(matrix)
    if matrix.shape[0] < len(given) or float(spectrum[-1]) < 1e-6 * float(spectrum[0]):
        return nothing
    solution = torch.linalg.lstsq(matrix, target.unsqueeze(1)).solution.squeeze(1)
    residual = float((matrix @ solution - target).norm())
    if residual > max(1e-7, 10 * tolerance) * max(float(target.norm()), 1e-300):
        return nothing
    found: list[float | None] = [None] * len(sums)
    for position, k in enumerate(given):
        found[k] = float(solution[position] / columns[k].norm())
    return tuple(found)


def best_ratio(gradient: Gradient, expected: Gradient, tolerance: float) -> float | None:
    """Return r if `gradient` = r * `expected` within the tolerance, else None."""
    names = sorted(expected)
    left, right = _flatten(gradient, names, expected), _flatten(expected, names, expected)
    size = float(right @ right)
    if size == 0 or not bool(torch.isfinite(left).all()):
        return None
    ratio = float(left @ right) / size
    if ratio == 0:
        return 0.0 if not bool(left.any()) else None
    return ratio if float((left - ratio * right).norm()) <= max(1e-7, 10 * tolerance) * float(left.norm()) else None


def _equal_weight(w: Weighing) -> str | None:
    m = len(w.counts)
    if not w.means_are(1 / m):
        return None
    least, most = min(n for _, n, _ in w.known), max(n for _, n, _ in w.known)
    uneven = f": a target among {least:g} weighs {most / least:.3g}x one among {most:g}" if least < most else ""
    return f"{_weights(w)}{uneven}; weight by valid targets"


def _short_window(w: Weighing) -> str | None:
    m, steps = len(w.counts), w.accumulation_steps
    if m >= steps or not (w.means_are(1 / steps) or _ratio_is(w, m / steps)):
        return None
    return f"a window of {m} microbatches is divided by {steps}, which leaves {m}/{steps} of its gradient"


def _running_count(w: Weighing) -> str | None:
    if len(w.known) < 2 or not w.all_equal(lambda c, n, so_far: c * so_far, 1.0):
        return None
    return f"{_weights(w)}: divide every microbatch by the count of the whole window"


def _last_count(w: Weighing) -> str | None:
    last = max(w.counts[-1], 1.0)
    if last == w.total or not w.coefficients_are(1 / last):
        return None
    return f"divided by {last:g} where {w.total:g} belongs: gradient {show_number(w.ratio)} times too large"


def _means_summed(w: Weighing) -> str | None:
    if not w.means_are(1.0):
        return None
    size = "" if w.ratio is None else f": gradient {show_number(w.ratio)} times too large"
    return f"{_weights(w)}{size}; divide by the window's valid targets"


def _sum_not_divided(w: Weighing) -> str | None:
    if not w.coefficients_are(1.0):
        return None
    return f"divide by the {w.total:g} valid targets of the window: gradient {w.total:g} times too large"


def _sum_divided_by_steps(w: Weighing) -> str | None:
    for steps in (w.accumulation_steps, len(w.counts)):
        if w.coefficients_are(1 / steps):
            return f"divided by {steps} where {w.total:g} belongs: gradient {show_number(w.ratio)} times too large"
    return None


def _divided_twice(w: Weighing) -> str | None:
    for steps in (w.accumulation_steps, len(w.counts)):
        if steps > 1 and _ratio_is(w, 1 / steps):
            return f"best-fit ratio 1/{steps}: remove the division by {steps}"
    return None


def _wrong_count(w: Weighing) -> str | None:
    if w.ratio is None or w.ratio <= 0:
        return None
    divisor = w.total / w.ratio
    if abs(divisor - round(divisor)) > NEAR * divisor or round(divisor) < 1:
        return None
    return f"divided by {round(divisor)} where {w.total:g} targets are valid; best-fit ratio {show_number(w.ratio)}"


def _wrong_scale(w: Weighing) -> str | None:
    if w.ratio is None:
        return None
    steps, m = w.accumulation_steps, len(w.counts)
    named = {"K": steps, "1/K": 1 / steps, "the window's length": m}
    known = next((f" = {name}" for name, value in named.items() if _ratio_is(w, value)), "")
    return f"best-fit ratio {show_number(w.ratio)}{known}"


def _other_weights(w: Weighing) -> str | None:
    if all(c is None for c in w.coefficients):
        return "the gradient is not a combination of the window's microbatch gradients"
    return _weights(w)


def _world_size(w: Weighing) -> str | None:
    for value, text in ((w.world_size, "W"), (1 / w.world_size, "1/W")):
        if w.world_size > 1 and _ratio_is(w, value):
            cure = "the ranks' gradients are averaged: multiply by W" if value < 1 else "do not multiply by W"
            return f"best-fit ratio {show_number(w.ratio)} = {text} with {w.world_size} ranks; {cure}"
    return None


def _local_count(w: Weighing) -> str | None:
    if w.world_size < 2:
        return None
    own = [sum(n for n, r in zip(w.counts, w.ranks, strict=True) if r == rank) for rank in range(w.world_size)]
    pairs = [(c, own[rank]) for c, rank in zip(w.coefficients, w.ranks, strict=True) if c is not None]
    if not pairs or not all(math.isclose(c * n * w.world_size, 1.0, rel_tol=NEAR) for c, n in pairs):
        return None
    return f"the ranks have {show_numbers(own)} valid targets: all-reduce the count; {_weights(w)}"


SPECIFIC: dict[FaultKind, Callable[[Weighing], str | None]] = {
    FaultKind.WORLD_SIZE: _world_size,
    FaultKind.EQUAL_WEIGHT: _equal_weight,
    FaultKind.LOCAL_COUNT: _local_count,
    FaultKind.SHORT_WINDOW: _short_window,
    FaultKind.RUNNING_COUNT: _running_count,
    FaultKind.LAST_COUNT: _last_count,
    FaultKind.MEANS_SUMMED: _means_summed,
    FaultKind.SUM_NOT_DIVIDED: _sum_not_divided,
    FaultKind.SUM_DIVIDED_BY_STEPS: _sum_divided_by_steps,
    FaultKind.DIVIDED_TWICE: _divided_twice,
}
GENERIC: dict[FaultKind, Callable[[Weighing], str | None]] = {
    FaultKind.WRONG_COUNT: _wrong_count,
    FaultKind.WRONG_SCALE: _wrong_scale,
    FaultKind.WEIGHTS: _other_weights,
}


def name_weight_faults(windows: Sequence[Weighing]) -> list[Fault]:
    """Name the faults of wrong windows: the kinds that explain most windows first, the general ones for the rest."""
    faults = []
    left = list(windows)
    for kinds in (SPECIFIC, GENERIC):
        texts = {kind: {w.index: text for w in left if (text := explain(w))} for kind, explain in kinds.items()}
        while left:
            remaining = {w.index for w in left}
            kind = max(texts, key=lambda k: len(texts[k].keys() & remaining))  # the first of equals
            explained = sorted(texts[kind].keys() & remaining)
            if not explained:
                break
            faults.append(Fault(kind, texts[kind][explained[0]], tuple(explained)))
            left = [w for w in left if w.index not in explained]
    return faults


def _ratio_is(w: Weighing, value: float) -> bool:
    return w.ratio is not None and math.isclose(w.ratio, value, rel_tol=NEAR)


def _weights(w: Weighing) -> str:
    shares = [None if c is None else c * n for c, n in zip(w.coefficients, w.counts, strict=True)]
    belong = [n / w.total if w.total else 0.0 for n in w.counts]
    return f"weights {show_numbers(shares)} where {show_numbers(belong)} belong"
