"""Losses are linear forms: adding, scaling and merging them gives the coefficients that arithmetic gives."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from loop_snippets import inside, trace

from accumlint.semantics.trace import BACKWARD

NUMBERS = st.sampled_from(["2", "3", "4", "7", "0.5", "0.25"])
LOSSES = st.recursive(
    st.sampled_from(["a", "b"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from("+-"), inner).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(inner, st.sampled_from("*/"), NUMBERS).map(lambda t: f"({t[0]} {t[1]} {t[2]})"),
        st.tuples(NUMBERS, inner).map(lambda t: f"({t[0]} * {t[1]})"),
        inner.map(lambda loss: f"(-{loss})"),
    ),
    max_leaves=6,
)


def coefficients(loss: str) -> dict[str, Fraction]:
    """What a backward of an expression of the two losses adds for each: zeros are left out."""
    run = trace(
        inside(
            f"""
            for x, y in loader:
                a = F.cross_entropy(net(x), y)
                b = F.mse_loss(net(x), y, reduction="sum")
                ({loss}).backward()
                opt.step()
                opt.zero_grad()
            """
        )
    )
    gradient = next(event for event in run.events if event.kind == BACKWARD).gradient
    names = {"mean": "a", "sum": "b"}
    found = {names[site.reduction]: coefficient.constant for (site, _), coefficient in gradient.items()}
    assert len(found) == len(gradient)  # one term for each site, however often it is in the expression
    return {name: value for name, value in found.items() if value}


@settings(max_examples=60)
@given(LOSSES)
def test_an_expression_has_the_coefficients_of_arithmetic(loss: str) -> None:
    exactly = {name: Fraction(str(eval(loss, {"a": a, "b": b}))) for name, a, b in (("a", 1.0, 0.0), ("b", 0.0, 1.0))}
    assert {name: float(value) for name, value in coefficients(loss).items()} == pytest.approx(
        {name: float(value) for name, value in exactly.items() if abs(value) > Fraction(1, 10**9)}
    )


@pytest.mark.parametrize(
    ("loss", "expected"),
    [
        ("a", {"a": Fraction(1)}),
        ("a + b", {"a": Fraction(1), "b": Fraction(1)}),
        ("a + a", {"a": Fraction(2)}),
        ("a - a + b", {"b": Fraction(1)}),
        ("(a / 3 + b) / 3", {"a": Fraction(1, 9), "b": Fraction(1, 3)}),
        ("a * 0.7", {"a": Fraction(7, 10)}),
        ("sum([a, b]) / 2", {"a": Fraction(1, 2), "b": Fraction(1, 2)}),
        ("torch.stack([a, b]).mean()", {"a": Fraction(1, 2), "b": Fraction(1, 2)}),
        ("torch.div(a, 4)", {"a": Fraction(1, 4)}),
    ],
)
def test_the_ways_to_write_it(loss: str, expected: dict[str, Fraction]) -> None:
    assert coefficients(loss) == expected


def test_losses_of_one_microbatch_merge_over_backwards() -> None:
    run = trace(
        inside(
            """
            for x, y in loader:
                a = F.cross_entropy(net(x), y)
                (a / 2).backward(retain_graph=True)
                (a / 4).backward()
                opt.step()
                opt.zero_grad()
            """
        )
    )
    backwards = [event for event in run.events if event.kind == BACKWARD]
    assert [coefficient.constant for coefficient in backwards[1].gradient.values()] == [Fraction(3, 4)]
