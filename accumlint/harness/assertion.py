"""`assert_equivalent`: `accumcheck` as an assertion, with the table of windows as its message."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from accumlint.harness.report import Report


def assert_equivalent(
    train: Any, model: Any = None, microbatches: Sequence[Any] | None = None, *, complete: bool = False, **options: Any
) -> Report:
    """Run `accumcheck(train, model, microbatches, **options)` and raise AssertionError unless it is equivalent.

    A `Report` may be given in place of `train`. With `complete`, data that leave something untested (no microbatch
    without targets, no partial window) fail too.
    """
    __tracebackhide__ = True  # pytest shows the caller's line
    if isinstance(train, Report):
        report = train
    else:
        from accumlint.harness.check import accumcheck

        report = accumcheck(train, model, microbatches or (), **options)
    if not report.equivalent:
        raise AssertionError(f"the training loop is not equivalent to its full batch\n{report}")
    if complete and report.untested:
        raise AssertionError(f"the data leave something untested: {'; '.join(report.untested)}\n{report}")
    return report
