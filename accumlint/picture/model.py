"""What is drawn: windows, the weight that each microbatch's targets get beside the one they should get, and events."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

Number = Fraction | float
NEAR = 1e-9  # floats come from runs, which round


@dataclass(frozen=True, slots=True)
class Share:
    """What each target of one microbatch gets, of one loss, and what it should get; None where it is not known."""

    microbatch: int
    count: Number | None
    gets: Number | None
    should: Number | None

    @property
    def ratio(self) -> Number | None:
        return None if self.gets is None or not self.should else self.gets / self.should

    def is_right(self, tolerance: float) -> bool | None:
        """Whether it gets what it should, None if that is not known; exact numbers are compared exactly."""
        if self.gets is None or self.should is None:
            return None
        if isinstance(self.gets, Fraction) and isinstance(self.should, Fraction):
            return self.gets == self.should
        return abs(float(self.gets) - float(self.should)) <= max(tolerance, NEAR) * abs(float(self.should))


@dataclass(frozen=True, slots=True)
class Loss:
    """One loss of a window: its text, how it is weighed, and a share for each microbatch."""

    text: str
    said: str
    shares: tuple[Share, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happens to the gradient: after which microbatch, what, and where in the text."""

    microbatch: int
    what: str
    place: str


@dataclass(frozen=True, slots=True)
class Window:
    """One optimizer step, or what no step uses. `numbers` are its microbatches, `owner` tells optimizers apart."""

    title: str
    numbers: tuple[int, ...]
    losses: tuple[Loss, ...]
    marks: tuple[Mark, ...]
    owner: str = ""
    is_used: bool = True  # by a step

    def is_wrong(self, tolerance: float) -> bool:
        """Whether a weight is wrong, or nothing uses the gradient."""
        wrong = any(share.is_right(tolerance) is False for loss in self.losses for share in loss.shares)
        return wrong or not self.is_used

    @property
    def shape(self) -> tuple[object, ...]:
        """What makes it worth drawing beside others: all but the numbers themselves."""
        signs = tuple(
            tuple(0 if s.ratio is None else (s.ratio > 1) - (s.ratio < 1) for s in loss.shares) for loss in self.losses
        )
        is_mixed = tuple(len(set(row)) > 1 for row in signs)
        said = tuple((loss.said, len(loss.shares) > len(self.numbers)) for loss in self.losses)
        return (len(self.numbers), is_mixed, said, tuple(mark.what.split(" by ")[0] for mark in self.marks))


Pair = tuple[Window | None, Window | None]
"""A window and the repaired one; None where no window starts."""


@dataclass(frozen=True, slots=True)
class Loop:
    """One training loop: its windows and those of its repair (None: there is none), or why nothing is drawn."""

    name: str
    place: str
    about: str = ""
    windows: tuple[Window, ...] = ()
    repaired: tuple[Window, ...] | None = None
    reason: str = ""
    verdicts: tuple[tuple[bool, str], ...] = ()  # whether all is right, and what is said of it
    tolerance: float = 0.0

    def pairs(self) -> list[Pair]:
        """Each window beside the repaired one that starts with the same microbatch, in order."""
        pairs: list[Pair] = []
        left, right = list(self.windows), list(self.repaired or ())
        while left or right:
            first, other = (left[0] if left else None), (right[0] if right else None)
            if first is not None and other is not None and first.owner == other.owner:
                start, other_start = first.numbers[:1], other.numbers[:1]
                first, other = (first if start <= other_start else None), (other if other_start <= start else None)
            elif first is not None and other is not None:  # one optimizer has more windows than before, or fewer
                is_left = any(window.owner == first.owner for window in right) or not pairs
                is_left = is_left or _owner(pairs[-1]) == first.owner
                first, other = (first, None) if is_left else (None, other)
            pairs.append((first, other))
            left, right = left[first is not None :], right[other is not None :]
        return pairs

    def rows(self, everything: bool = False) -> list[Pair | int]:
        """The pairs to draw; a number stands for so many in a row that look like earlier ones."""
        rows: list[Pair | int] = []
        seen = set()
        for left, right in self.pairs():
            key = (left.shape if left else None, right.shape if right else None)
            if everything or key not in seen:
                rows.append((left, right))
            elif isinstance(rows[-1], int):
                rows[-1] += 1
            else:
                rows.append(1)
            seen.add(key)
        return rows

    def to_dict(self) -> dict[str, Any]:
        """Plain data; exact numbers are strings like "1/10", others are numbers."""
        return {
            "name": self.name,
            "place": self.place,
            "about": self.about,
            "reason": self.reason,
            "verdicts": [{"right": is_right, "text": text} for is_right, text in self.verdicts],
            "windows": [_window(window) for window in self.windows],
            "repaired": None if self.repaired is None else [_window(window) for window in self.repaired],
        }


def _window(window: Window) -> dict[str, Any]:
    return {
        "title": window.title,
        "microbatches": list(window.numbers),
        "losses": [
            {
                "text": loss.text,
                "said": loss.said,
                "shares": [
                    {
                        "microbatch": share.microbatch,
                        "count": _plain(share.count),
                        "gets": _plain(share.gets),
                        "should": _plain(share.should),
                    }
                    for share in loss.shares
                ],
            }
            for loss in window.losses
        ],
        "events": [{"after": mark.microbatch, "what": mark.what, "place": mark.place} for mark in window.marks],
    }


def _plain(value: Number | None) -> str | float | None:
    return str(value) if isinstance(value, Fraction) else value


def show(value: Number | None) -> str:
    """A number as a reader would write it: exact while it is short."""
    if value is None:
        return "?"
    if isinstance(value, Fraction):
        exact = str(value)
        return exact if len(exact) <= 9 else f"{float(value):.4g}"
    if value != value or value in (float("inf"), float("-inf")):
        return str(value)
    near = Fraction(value).limit_denominator(100)
    return str(near) if abs(float(near) - value) <= 1e-6 * abs(value) else f"{value:.4g}"


def largest(*windows: Window | None) -> float:
    """The largest weight of these windows: what the longest bar stands for. Never zero."""
    losses = (loss for window in windows if window is not None for loss in window.losses)
    values = (abs(float(v)) for loss in losses for s in loss.shares for v in (s.gets, s.should) if v is not None)
    return max((value for value in values if value < float("inf")), default=1.0) or 1.0


def _owner(pair: Pair) -> str | None:
    return next((window.owner for window in pair if window is not None), None)


def part(value: Number | None, whole: float) -> float:
    """How long the bar of a weight is, from 0 to 1."""
    return 0.0 if value is None or not abs(float(value)) < float("inf") else abs(float(value)) / whole


def like_above(number: int) -> str:
    return f"{number} more window{' looks' if number == 1 else 's look'} like those above"
