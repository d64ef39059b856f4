"""Exact numbers known at a few sample points.

Every scalar that can reach a gradient is a vector of `Fraction`s, one for each assignment of the unknown counts. Two
numbers are equal if they are equal at every point (polynomial identity testing), so no computer algebra is needed and
division works. Points prove equality, never order: an ordering that all points agree on is an assumption.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from accumlint.reading.record import record

LONGEST_TEXT = 120
LONGEST_NUMBER = 2_000
POINTS = 4
"""How many sample points a run has: the worked example first, then a primed one, one with an empty microbatch, one
whose first window has no target at all."""

Scalar: TypeAlias = "int | float | bool | Fraction | Num"


class Basis(Enum):
    """Why a comparison has its answer."""

    LITERAL = "both sides are known exactly"
    SAMPLED = "all sample points agree: an assumption, printed with a proof"
    OPEN = "the points disagree"


@record
class Comparison:
    answer: bool | None
    basis: Basis


@record
class Num:
    """A rational function of the unknowns, known at a few points.

    `at` has `POINTS` entries; None means undefined there, as 0/0 is, and is contagious. `text` is for messages only.
    `unknowns` are the names it depends on: a configuration value keeps its name although it has one value in a run,
    so that a reader of the number knows whether it came from the number of accumulation steps.
    """

    at: tuple[Fraction | None, ...]
    text: str = ""
    unknowns: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.unknowns and self.depends_on_counts:
            raise ValueError(f"a literal that varies between points: {self.text}")

    @property
    def is_constant(self) -> bool:
        """Whether it has one defined value at all points: it does not depend on the counts."""
        return self.at[0] is not None and not self.depends_on_counts

    @property
    def depends_on_counts(self) -> bool:
        first = self.at[0]
        return self.at.count(first) != len(self.at)  # `count` knows the same object without comparing it

    @property
    def constant(self) -> Fraction:
        """The one value of a constant; raises ValueError for a number that varies."""
        if not self.is_constant or self.at[0] is None:
            raise ValueError(f"not a constant: {self.text}")
        return self.at[0]

    def as_int(self) -> int | None:
        """The value as an int, if it is a constant whole number."""
        first = self.at[0]
        if first is None or first.denominator != 1 or self.depends_on_counts:
            return None
        return first.numerator


def exact(value: int | float | bool | Fraction) -> Fraction:
    """A literal as a Fraction; a float as it was written (0.7 is 7/10). Raises ValueError for nan and inf."""
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError("not a finite number")
        return Fraction(repr(value))
    return Fraction(value)


def number(value: Scalar, text: str = "", unknowns: frozenset[str] = frozenset()) -> Num:
    """A literal, or a value that all points share, as a Num."""
    return value if isinstance(value, Num) else _shared(value, text, unknowns)


@lru_cache(maxsize=4096, typed=True)
def _shared(value: int | float | bool | Fraction, text: str, unknowns: frozenset[str]) -> Num:
    return Num((exact(value),) * POINTS, text or str(value), unknowns)


ZERO = number(0)
ONE = number(1)

_Operation: TypeAlias = Callable[[Fraction, Fraction], "Fraction | None"]


def _divide(left: Fraction, right: Fraction) -> Fraction | None:
    return left / right if right else None


def _floor_divide(left: Fraction, right: Fraction) -> Fraction | None:
    return Fraction(left // right) if right else None


def _modulo(left: Fraction, right: Fraction) -> Fraction | None:
    return left % right if right else None


def _power(left: Fraction, right: Fraction) -> Fraction | None:
    if right.denominator != 1 or abs(right) > 64 or (not left and right < 0):
        return None
    return Fraction(left**right)


_OPERATIONS: dict[str, _Operation] = {
    "+": lambda left, right: left + right,
    "-": lambda left, right: left - right,
    "*": lambda left, right: left * right,
    "/": _divide,
    "//": _floor_divide,
    "%": _modulo,
    "**": _power,
    "max": max,
    "min": min,
}


def over_pairs(value: Num, *, mean: bool = False) -> Num | None:
    """The sum (or mean) of what two ranks hold, points 0 and 1 being the ranks of a run, and 2 and 3 of another."""
    partner = Num(tuple(value.at[place ^ 1] for place in range(POINTS)), value.text, value.unknowns | {"ranks"})
    total = combine("+", value, partner)
    return combine("/", total, number(2)) if mean and total is not None else total


def combine(operator: str, left: Num, right: Num) -> Num | None:
    """`left operator right` at each point; None for an operator that numbers do not have."""
    operation = _OPERATIONS.get(operator)
    if operation is None:
        return None
    at = _at_each_point(operation, left, right)
    if operator in ("max", "min"):
        text = f"{operator}({left.text}, {right.text})"
    else:
        text = f"{_wrapped(left.text)} {operator} {_wrapped(right.text)}"
    return Num(at, brief(text), left.unknowns | right.unknowns)


def _at_each_point(operation: _Operation, left: Num, right: Num) -> tuple[Fraction | None, ...]:
    """What no count tells apart is worked out once: most numbers are literals."""

    def at(a: Fraction | None, b: Fraction | None) -> Fraction | None:
        return None if a is None or b is None else _bounded(operation(a, b))

    if left.depends_on_counts or right.depends_on_counts:
        return tuple(map(at, left.at, right.at))
    return (at(left.at[0], right.at[0]),) * POINTS


def _bounded(value: Fraction | None) -> Fraction | None:
    """A number of reasonable length: products in a loop grow without end, and are then as good as unknown."""
    if value is None or value.numerator.bit_length() + value.denominator.bit_length() > LONGEST_NUMBER:
        return None
    return value


def brief(text: str) -> str:
    """A text for messages, never longer than a line: a running mean would double it in each iteration."""
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 3] + "..."


def _wrapped(text: str) -> str:
    return f"({text})" if " " in text and not text.endswith(")") else text


def negate(value: Num) -> Num:
    return Num(tuple(None if a is None else -a for a in value.at), f"-{_wrapped(value.text)}", value.unknowns)


_ORDER: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "==": lambda left, right: left == right,
    "!=": lambda left, right: left != right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


_UNDEFINED = Comparison(None, Basis.OPEN)
_KNOWN = {answer: Comparison(answer, Basis.LITERAL) for answer in (True, False)}


def compare(operator: str, left: Num, right: Num) -> Comparison:
    """Compare two numbers; undefined points say nothing, and with no defined point the answer is open."""
    order = _ORDER[operator]
    if not (left.depends_on_counts or right.depends_on_counts):
        first, second = left.at[0], right.at[0]
        return _UNDEFINED if first is None or second is None else _KNOWN[order(first, second)]
    answers = {order(a, b) for a, b in zip(left.at, right.at, strict=True) if a is not None and b is not None}
    if len(answers) != 1:
        return _UNDEFINED
    return Comparison(answers.pop(), Basis.SAMPLED)


def pointwise(operator: str, left: Num, right: Num) -> tuple[bool | None, ...]:
    """The answer of a comparison at each point; None where a side is undefined."""
    order = _ORDER[operator]
    return tuple(None if a is None or b is None else order(a, b) for a, b in zip(left.at, right.at, strict=True))


def equal(left: Num, right: Num) -> bool:
    """Whether two numbers are equal wherever both are defined, and somewhere both are."""
    pairs = [(a, b) for a, b in zip(left.at, right.at, strict=True) if a is not None and b is not None]
    return bool(pairs) and all(a == b for a, b in pairs)
