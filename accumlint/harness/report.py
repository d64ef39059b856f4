"""What `accumcheck` found: a verdict, the faults by name, and the numbers of each window. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from enum import Enum
from fractions import Fraction
from pathlib import Path
from typing import Any


class FaultKind(Enum):
    """What is wrong with an update. The value is what a reader sees."""

    EQUAL_WEIGHT = "every microbatch has equal weight, whatever its count"
    SHORT_WINDOW = "the short window is divided by the full number of accumulation steps"
    RUNNING_COUNT = "each microbatch is divided by the count so far"
    LAST_COUNT = "the window is divided by the last microbatch's count"
    MEANS_SUMMED = "microbatch means are added without a division"
    SUM_NOT_DIVIDED = "the sum is never divided"
    SUM_DIVIDED_BY_STEPS = "a sum is divided by the number of microbatches"
    DIVIDED_TWICE = "divided by the number of microbatches on top of the count"
    WORLD_SIZE = "the gradient is off by the number of ranks"
    WRONG_COUNT = "divided by another count than that of the valid targets"
    WRONG_SCALE = "the gradient has a wrong scale"
    WEIGHTS = "the microbatches have wrong weights"
    CLIP_EACH = "clipped before the window was complete"
    CLIP_TWICE = "clipped more than once a window"
    CLIP_BEFORE_DIVISION = "clipped before the division"
    CLIP_MISSING = "not clipped"
    CLIP_THRESHOLD = "clipped at another threshold"
    CLIP_WRONG = "the clipped gradient is wrong"
    STEP_EACH = "the optimizer steps after every microbatch"
    BOUNDARY = "the optimizer steps at the wrong microbatch"
    LEFTOVER = "gradient is left over when the loop ends"
    LOST = "gradient is cleared inside a window"
    STALE = "gradient of an earlier window is not cleared"
    UPDATE = "the parameters do not change as the optimizer would change them"
    NON_FINITE = "the gradient is NaN or infinite"
    BATCH_COUPLED = "the loss couples the samples of a batch"
    LOCAL_COUNT = "each rank divides by its own count"
    RANKS_DIFFER = "the ranks have different gradients"


@dataclass(frozen=True)
class Fault:
    """One fault, over all windows that show it. `message` has the numbers of the first of them."""

    kind: FaultKind
    message: str
    windows: tuple[int, ...] = ()

    def __str__(self) -> str:
        return f"{self.kind.value}: {self.message}" if self.message else self.kind.value


@dataclass(frozen=True)
class Window:
    """One optimizer step beside the window that belongs there.

    `weights` are the shares of the microbatch means, recovered by least squares from the gradient before clip (None
    where a microbatch has no target, or all None if the gradient is no combination of theirs); `expected` is n_k / n.
    `error`, `clipped_error` and `update_error` are relative L2 norms against the full batch; `ratio` is the best-fit
    factor between both gradients, None unless the gradient is a multiple of the right one. `events` are what happened,
    in order: after which microbatch, and what ("backward", "clip", "clear", "step").
    """

    microbatches: tuple[int, ...]
    counts: tuple[float, ...]
    expected: tuple[float, ...]
    weights: tuple[float | None, ...]
    error: float
    clipped_error: float
    update_error: float
    ratio: float | None
    norm: float
    expected_norm: float
    clips: int
    events: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True)
class Report:
    """The result of a check. `equivalent` is true only if nothing is wrong and the negative control was caught."""

    equivalent: bool
    faults: tuple[Fault, ...]
    windows: tuple[Window, ...]
    counts: tuple[float, ...]
    accumulation_steps: int
    steps: int
    expected_steps: int
    clips: int
    tolerance: float
    dtype: str
    control_error: float  # of a deliberately wrong window, by the same comparison
    assumptions: tuple[str, ...] = ()  # what was read off the loop because it was not said
    limits: tuple[str, ...] = ()  # what the check met, how it knows, and what it did
    untested: tuple[str, ...] = ()  # what these data cannot show
    world_size: int = 1

    @property
    def error(self) -> float:
        """The largest error of a gradient before clip."""
        return max((window.error for window in self.windows), default=float("inf"))

    def has(self, kind: FaultKind) -> bool:
        return any(fault.kind is kind for fault in self.faults)

    def to_dict(self) -> dict[str, Any]:
        """Return plain data. Infinite numbers are strings, so that it is valid JSON."""
        data = asdict(self)
        data["error"] = self.error
        data["faults"] = [
            {"kind": f.kind.name.lower().replace("_", "-"), "message": str(f), "windows": f.windows}
            for f in self.faults
        ]
        plain: dict[str, Any] = _plain(data)
        return plain

    def to_json(self, *, indent: int | None = 2) -> str:
        return json.dumps(self.to_dict(), indent=indent, allow_nan=False)

    def to_html(self, *, title: str = "accumcheck", repaired: Report | None = None) -> str:
        """Return one page that needs nothing else: the windows drawn, beside those of the report of a repaired loop."""
        from accumlint.harness.drawing import draw

        return draw(self, title, repaired)

    def save(self, path: str | Path, *, title: str = "accumcheck", repaired: Report | None = None) -> None:
        """Write the page, or the numbers if the name ends in .json. Raises OSError if it cannot be written."""
        is_json = str(path).endswith(".json")
        text = self.to_json() + "\n" if is_json else self.to_html(title=title, repaired=repaired)
        Path(path).write_text(text, encoding="utf-8")

    def __str__(self) -> str:
        verdict = "equivalent to the full batch" if self.equivalent else "NOT equivalent to the full batch"
        ranks = f", {self.world_size} ranks" if self.world_size > 1 else ""
        lines = [
            f"{verdict} ({self.dtype}, tolerance {self.tolerance:g}{ranks})",
            f"  {self.expected_steps} windows of {self.accumulation_steps}: {self.steps} steps, {self.clips} clips; "
            f"a deliberately wrong window has error {self.control_error:.1e}",
        ]
        lines += [f"  fault: {fault}" for fault in self.faults]
        lines += ["", *_table(self.windows), ""] if self.windows else []
        for title, texts in (("assumed", self.assumptions), ("limit", self.limits), ("untested", self.untested)):
            lines += [f"  {title}: {text}" for text in texts]
        return "\n".join(lines).rstrip()


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return str(value)
    return value


def show_number(value: float | None) -> str:
    """Return a share as a reader would write it: 2/7, 1, 0.123; a dash for None."""
    if value is None:
        return "-"
    fraction = Fraction(value).limit_denominator(100) if abs(value) < 1e6 else Fraction(0)
    return str(fraction) if abs(float(fraction) - value) <= 1e-6 * max(1.0, abs(value)) else f"{value:.4g}"


def show_numbers(values: Iterable[float | None]) -> str:
    return ", ".join(show_number(value) for value in values)


def _table(windows: tuple[Window, ...]) -> list[str]:
    head = ("step", "microbatches", "valid targets", "weights", "belong", "error", "ratio", "clips")
    rows = [
        (
            str(index + 1),
            f"{w.microbatches[0]}-{w.microbatches[-1]}" if len(w.microbatches) > 1 else str(w.microbatches[0]),
            show_numbers(w.counts),
            show_numbers(w.weights),
            show_numbers(w.expected),
            f"{w.error:.1e}",
            show_number(w.ratio),
            str(w.clips),
        )
        for index, w in enumerate(windows)
    ]
    widths = [max(len(row[column]) for row in (head, *rows)) for column in range(len(head))]
    return [
        "  " + "  ".join(text.ljust(w) for text, w in zip(row, widths, strict=True)).rstrip() for row in (head, *rows)
    ]
