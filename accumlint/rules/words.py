"""Numbers and phrases of the messages: every function copes with a violation whose fields are missing."""

from __future__ import annotations

from fractions import Fraction

from accumlint.contract.verdict import Violation


def number(value: Fraction | int) -> str:
    """`3`, `1/4`, `2.5`: a fraction below one with a small denominator stays a fraction."""
    exact = Fraction(value)
    if exact.denominator == 1:
        return str(exact.numerator)
    if abs(exact) < 1 and exact.denominator <= 100:
        return f"{exact.numerator}/{exact.denominator}"
    return f"{float(exact):.3g}"


def plural(count: int, noun: str) -> str:
    """`1 microbatch`, `3 microbatches`, `2 targets`."""
    if count == 1:
        return f"{count} {noun}"
    return f"{count} {noun}{'es' if noun.endswith(('ch', 's')) else 's'}"


def brief(text: str, limit: int = 60) -> str:
    """Source text on one line, cropped: messages are one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= limit else flat[: limit - 3].rstrip() + "..."


def call_name(violation: Violation, otherwise: str) -> str:
    """The reported call without its arguments (`scaler.update`), or `otherwise` where its text is not known."""
    head = brief(violation.subject).split("(", 1)[0].strip()
    return head or otherwise


def is_literal(divisor: str) -> bool:
    return divisor.strip().replace("_", "").isdigit()


def is_symbolic(violation: Violation) -> bool:
    """The source holds K in a name, so that the numbers of the violation are only a sample of it."""
    return bool(violation.divisor.strip()) and not is_literal(violation.divisor)


def steps_name(violation: Violation) -> str:
    """The source's own text of K (`args.accum`, `4`); empty where the source has none."""
    return brief(violation.divisor)


def known_steps(violation: Violation) -> int:
    """K where the source says it in figures, else 0: any other number of the violation is only a sample."""
    return int(violation.divisor) if is_literal(violation.divisor) else 0


def sampled_steps(violation: Violation) -> int:
    """K as it is in the source or was sampled; 0 where neither is known."""
    return known_steps(violation) or violation.steps or violation.window


def runs_inside(call: str, violation: Violation) -> str:
    """`CALL runs 4 times in a window of 4 microbatches`, as far as the source says so."""
    known = known_steps(violation)
    if known and violation.times > 1:
        return f"{call} runs {violation.times} times in a window of {plural(known, 'microbatch')}"
    if is_symbolic(violation):
        return f"{call} runs inside a window of {steps_name(violation)} microbatches"
    return f"{call} runs before the window is complete"


def heaviest_pair(violation: Violation) -> tuple[Fraction, Fraction, Fraction] | None:
    """(count, other count, ratio): a target of the first microbatch weighs `ratio` times one of the second.

    The pair with the largest ratio, among the microbatches that have valid targets; None if no two differ. Without
    `weights` the microbatch means are taken to weigh equally.
    """
    weights = violation.weights if len(violation.weights) == len(violation.counts) else ()
    pairs = zip(violation.counts, weights or (Fraction(1),) * len(violation.counts), strict=True)
    per_target = [(weight / count, count) for count, weight in pairs if count > 0 and weight > 0]
    if not per_target:
        return None
    heavy, light = max(per_target), min(per_target)
    if heavy[0] == light[0]:
        return None
    return heavy[1], light[1], heavy[0] / light[0]


def because(violation: Violation) -> str:
    """`; counts differ because labels are padded`, from the first evidence, or nothing."""
    reason = next((brief(item.reason, 90).rstrip(".") for item in violation.evidence if item.reason.strip()), "")
    return f"; counts differ because {reason}" if reason else ""


def share(violation: Violation) -> Fraction | None:
    """What the update is as a multiple of what it should be, from `actual` and `expected`."""
    if violation.actual is None or not violation.expected or violation.actual == violation.expected:
        return None
    return violation.actual / violation.expected
