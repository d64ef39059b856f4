"""The sample points: the worked example first, an empty microbatch, an empty window; and what they say of a loop."""

from __future__ import annotations

from fractions import Fraction

from loop_snippets import script, trace

from accumlint.semantics.numbers import POINTS, combine
from accumlint.semantics.points import EMPTY_WINDOW, count_at, count_of, generic_value
from accumlint.semantics.trace import STEP


def test_the_worked_example_comes_first() -> None:
    assert [count_at(0, k) for k in range(2)] == [2, 5]
    assert count_of(0, POINTS).text == "n1"


def test_one_microbatch_is_empty_and_one_window() -> None:
    assert [k for k in range(40) if not count_at(2, k)] == [1]
    assert [k for k in range(40) if not count_at(3, k)] == list(range(EMPTY_WINDOW))
    assert all(count_at(point, k) > 0 for point in (0, 1) for k in range(40))


def test_counts_are_whole_and_differ_within_a_point() -> None:
    for point in range(POINTS):
        counts = [count_at(point, k) for k in range(36)]
        assert all(count.denominator == 1 for count in counts)
        assert len({count for count in counts if count}) == sum(1 for count in counts if count)


def test_a_value_without_a_meaning_has_no_simple_ratio() -> None:
    assert len({generic_value(ordinal) for ordinal in range(30)}) == 30
    assert all(generic_value(ordinal).denominator == 13 for ordinal in range(12))


def test_a_target_of_the_first_microbatch_weighs_two_and_a_half_times_one_of_the_second() -> None:
    run = trace(
        script(
            """
            opt.zero_grad()
            for micro in range(2):
                x, y = get_batch()
                (F.cross_entropy(net(x), y) / 2).backward()
            opt.step()
            """
        )
    )
    (step,) = [event for event in run.events if event.kind == STEP]
    weights = []
    for (site, microbatch), coefficient in step.gradient.items():
        assert site.reduction == "mean"
        weight = combine("/", coefficient, run.counts[microbatch])
        assert weight is not None
        weights.append(weight)
    assert [weight.at[0] for weight in weights] == [Fraction(1, 4), Fraction(1, 10)]
    ratio = combine("/", *weights)
    assert ratio is not None
    assert ratio.at[0] == Fraction(5, 2)
    assert ratio.at[2] is None  # the second microbatch is empty there: no target of it weighs anything
