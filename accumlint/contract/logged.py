"""Whether the loss that people are shown is the divided one (opt-in)."""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.contract.clauses import Case
from accumlint.contract.verdict import Clause, Violation


def check_logged(case: Case) -> Iterator[Violation]:
    """A logged loss that was divided by the number of accumulation steps."""
    if not case.accumulates or case.trace.steps is None:
        return
    steps = case.trace.steps
    for node, form in case.trace.logged:
        if len(form.terms) != 1:
            continue
        for division in form.divisions:
            if division.divisor.as_int() == steps and division.divisor.unknowns:
                yield case.make(Clause.LOGGED_SCALE, node, other=division.node)
                break
