"""The windows of a report as a picture: the same page as `accumlint explain --html`, with the numbers of a real run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from accumlint.picture.model import Loop, Loss, Mark, Share, Window, show
from accumlint.picture.page import page

if TYPE_CHECKING:
    from accumlint.harness.report import Report
    from accumlint.harness.report import Window as Checked

CAPTION = (
    "Measured by accumcheck. gets: what one target's loss is multiplied by in the gradient that the loop accumulates, "
    "recovered by least squares; should: 1 / (targets of the window), the full-batch mean."
)


def draw(report: Report, title: str, repaired: Report | None) -> str:
    """Return the page of a report, with the windows of a second one beside it."""
    verdicts = [(report.equivalent, _verdict(report))]
    if repaired is not None:
        verdicts.append((repaired.equivalent, f"repaired: {_verdict(repaired)}"))
    loop = Loop(
        name=f"{report.accumulation_steps} accumulation steps",
        place=f"{report.world_size} ranks" if report.world_size > 1 else "",
        about=f"{report.dtype}, tolerance {report.tolerance:g}",
        windows=_windows(report),
        repaired=None if repaired is None else _windows(repaired),
        verdicts=tuple(verdicts),
        tolerance=100 * report.tolerance,  # least squares adds to the rounding of the gradient
    )
    return page([loop], title, CAPTION)


def _verdict(report: Report) -> str:
    verdict = "equivalent to the full batch" if report.equivalent else "NOT equivalent to the full batch"
    return "\n".join([verdict, *(str(fault) for fault in report.faults)])


def _windows(report: Report) -> tuple[Window, ...]:
    return tuple(_window(index, window) for index, window in enumerate(report.windows))


def _window(index: int, window: Checked) -> Window:
    total = sum(window.counts)
    shares = tuple(
        Share(
            microbatch=k,
            count=n,
            gets=None if weight is None or not n else weight / n,
            should=1 / total if n else None,
        )
        for k, n, weight in zip(window.microbatches, window.counts, window.weights, strict=True)
    )
    first, last = window.microbatches[0], window.microbatches[-1]
    which = f"microbatches {first}-{last}" if last > first else f"microbatch {first}"
    title = f"window {index + 1}: {which}; {total:g} targets; error {window.error:.1e}"
    marks = tuple(Mark(k, what, "") for k, what in window.events)
    return Window(title, window.microbatches, (Loss("loss", _said(window), shares),), marks)


def _said(window: Checked) -> str:
    if all(weight is None for weight in window.weights):
        return "no combination of the microbatches' gradients"
    return "" if window.ratio is None else f"{show(window.ratio)} times the full-batch gradient"
