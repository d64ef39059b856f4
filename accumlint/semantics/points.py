"""The sample points: how many valid targets each microbatch has at each of them.

Point 0 is the worked example (2 and 5 valid targets), point 1 has primes, in point 2 the second microbatch is empty,
in point 3 the first window has no target at all. All data of one microbatch share one count: the analysis asks whether
a loop weighs by counts at all; whether an inserted count is the loss's own normaliser is the leaf check's question.
"""

from __future__ import annotations

from fractions import Fraction

from accumlint.semantics.numbers import Num

_EXAMPLE = (2, 5, 3, 7, 4, 6, 9, 8, 11, 10, 13, 12)
_PRIMES = (17, 41, 23, 11, 37, 19, 29, 43, 13, 31, 47, 53)
EMPTY_WINDOW = 3
"""How many microbatches the empty window of point 3 spans."""


def count_at(point: int, microbatch: int) -> Fraction:
    """Valid targets of microbatch number `microbatch` (from 0) at sample point `point`."""
    lap, place = divmod(microbatch, len(_EXAMPLE))
    if point == 0:
        return Fraction(_EXAMPLE[place] + 14 * lap)
    prime = Fraction(_PRIMES[place] + 60 * lap)
    if point == 2 and microbatch == 1:
        return Fraction(0)
    if point == 3 and microbatch < EMPTY_WINDOW:
        return Fraction(0)
    return prime + point


def count_of(microbatch: int, points: int) -> Num:
    """The unknown count of one microbatch."""
    name = f"n{microbatch + 1}"
    return Num(tuple(count_at(p, microbatch) for p in range(points)), name, frozenset({name}))


_GENERIC = (17, 29, 43, 59, 71, 83, 97, 109, 127, 139, 151, 163)


def generic_value(ordinal: int) -> Fraction:
    """A value for a configuration number about which nothing is known: no simple ratio to any small integer."""
    lap, place = divmod(ordinal, len(_GENERIC))
    return Fraction(_GENERIC[place] + 208 * lap, 13)
