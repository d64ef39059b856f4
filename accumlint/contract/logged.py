"""Whether the loss that people are shown is the divided one (opt-in)."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from accumlint.contract.clauses import Case
from accumlint.contract.verdict import Clause, Violation
from accumlint.semantics.values import Division, Form


def check_logged(case: Case) -> Iterator[Violation]:
    """A logged loss that was divided by the number of accumulation steps."""
    if not case.accumulates or case.trace.steps is None:
        return
    steps = case.trace.steps
    for node, form in case.trace.logged:
        if len(form.terms) != 1:
            if again := _averaged_again(form, steps):
                yield case.make(Clause.LOGGED_SCALE, node, other=again.node)
            continue
        divided = [d for d in form.divisions if d.divisor.unknowns and d.divisor.as_int() == steps]
        back = [d for d in form.divisions if d.divisor.unknowns and d.divisor.constant == Fraction(1, steps)]
        if len(divided) > len(back):
            yield case.make(Clause.LOGGED_SCALE, node, other=divided[0].node)


def _averaged_again(form: Form, steps: int) -> Division | None:
    """The division by the steps in an average over all microbatches so far: each of n means weighs 1 / (n * steps)."""
    if not form.terms:
        return None
    share = Fraction(1, len(form.terms) * steps)
    if any(site.reduction != "mean" or part.at != (share,) * len(part.at) for site, part in form.terms):
        return None
    return next((d for d in form.divisions if d.divisor.unknowns and d.divisor.as_int() == steps), None)
