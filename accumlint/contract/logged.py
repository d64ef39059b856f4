"""Whether the loss that people are shown is the divided one (opt-in)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

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
        divided = [d for d in form.divisions if d.divisor.unknowns and d.divisor.as_int() == steps]
        back = [d for d in form.divisions if d.divisor.unknowns and d.divisor.constant == Fraction(1, steps)]
        if len(divided) > len(back):
            yield case.make(Clause.LOGGED_SCALE, node, other=divided[0].node)
