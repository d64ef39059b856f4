"""What no weighting can repair: BatchNorm in train mode, and losses that couple the examples of a batch (opt-in)."""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.contract.clauses import Case
from accumlint.contract.verdict import Clause, Violation


def check_model(case: Case, found: list[Violation]) -> Iterator[Violation]:
    """BatchNorm in the file's own model, and a batch-coupled loss, under accumulation."""
    if not case.accumulates:
        return
    window = next((w for w in case.stepped if w.size == case.full), None)
    if window is None:
        return
    backward = window.backwards[0]
    if case.facts.batch_norm is not None and backward.node not in case.trace.frozen:
        yield case.make(Clause.BATCH_NORM, backward.node, window, subject=case.facts.batch_norm.reason)
    if any(not site.separable for site, _ in window.gradient):
        yield case.make(Clause.BATCH_COUPLED, backward.node, window)
