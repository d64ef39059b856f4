"""The weights that a window gives to its microbatches, read off the gradient that its step used."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import partial

from accumlint.contract.windows import Window, site_key
from accumlint.semantics.numbers import POINTS, Num
from accumlint.semantics.trace import Trace
from accumlint.semantics.values import Site


@dataclass(frozen=True, slots=True)
class Weighting:
    """How one loss site is weighed in one window.

    `weight` is what a microbatch's MEAN is multiplied by, if it is the same number for all microbatches whatever
    their counts ("equal"). `factor` is sum(n) times the weight of a target, if that is one number ("right"): 1 is the
    full-batch mean. "shared" means that the microbatch means are divided by a number that depends on the counts of the
    window, the same for all. `known` says whether the reduction was seen; an unknown one is taken for a mean.
    """

    site: Site
    shape: str
    weight: Fraction | None = None
    factor: Fraction | None = None
    known: bool = True
    reduced: bool = False
    counted: bool = False  # the code itself divides by a count of the data
    unknowns: frozenset[str] = frozenset()  # the names that the weight was worked out from


def weigh(trace: Trace, window: Window) -> list[Weighting]:
    """The weighting of every site in the gradient of a window's step."""
    places: dict[tuple[int, str], dict[int, tuple[Site, Num]]] = {}
    for (site, microbatch), coefficient in window.gradient.items():
        present = places.setdefault(site_key(site), {})
        if microbatch in present:
            present[microbatch] = (site, _plus(present[microbatch][1], coefficient))
        else:
            present[microbatch] = (site, coefficient)
    return [_weighting(trace, window, terms) for terms in places.values()]


def is_repeated(window: Window, site: Site) -> bool:
    """Whether a place in the code gives a loss to more than one microbatch of the window."""
    return len({microbatch for each, microbatch in window.gradient if site_key(each) == site_key(site)}) > 1


def _plus(left: Num, right: Num) -> Num:
    at = tuple(None if a is None or b is None else a + b for a, b in zip(left.at, right.at, strict=True))
    return Num(at, left.text, left.unknowns | right.unknowns | {"sum"})


def _weighting(trace: Trace, window: Window, terms: dict[int, tuple[Site, Num]]) -> Weighting:
    site = next(iter(terms.values()))[0]
    present = [k for k in window.microbatches if k in terms]
    unknowns = frozenset[str]().union(*(coefficient.unknowns for _, coefficient in terms.values()))
    means: set[Fraction] = set()
    targets: set[Fraction] = set()
    shared = len(present) > 1
    for point in range(POINTS):
        counts = {k: trace.counts[k].at[point] or Fraction(0) for k in window.microbatches}
        total = sum(counts.values(), Fraction(0))
        here: set[Fraction] = set()
        for k in present:
            value = terms[k][1].at[point]
            count = counts[k]
            if value is None or not count:
                continue
            mean = value * count if site.reduction == "sum" else value
            here.add(mean)
            targets.add(mean / count * total)
        means |= here
        shared &= len(here) < 2
    known = site.reduction in ("mean", "sum") or site.node in trace.means
    counted = any(name.startswith("n") and name[1:].isdigit() for name in unknowns)
    reduced = "all-reduced" in unknowns
    weighting = partial(Weighting, site, known=known, reduced=reduced, counted=counted, unknowns=unknowns)
    if targets == {1} or (len(present) > 1 and len(targets) == 1):  # of one microbatch, its mean is the full mean
        return weighting("right", factor=targets.pop())
    if len(means) == 1:
        return weighting("equal", means.pop())
    if len(targets) == 1:
        return weighting("right", factor=targets.pop())
    return weighting("shared" if shared else "other")


def degree(first: Fraction, first_steps: int, second: Fraction, second_steps: int) -> int | None:
    """How often a weight was divided by K, from its values at two K; None if it is no power of K."""
    if not first or not second:
        return None
    ratio = first / second
    base = Fraction(second_steps, first_steps)
    for power in range(4):
        if ratio == base**power:
            return power
    return None


def literal_degree(weight: Fraction, steps: int) -> int | None:
    """The same for a K that is written in the code: only a bare power of it can be told."""
    for power in range(4):
        if weight == Fraction(1, steps**power):
            return power
    return None
