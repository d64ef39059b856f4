"""Exact numbers: the laws of a field where they are defined, 0/0 is contagious, points prove equality but no order."""

from __future__ import annotations

import operator
from fractions import Fraction

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from accumlint.semantics.numbers import (
    LONGEST_TEXT,
    ONE,
    POINTS,
    ZERO,
    Basis,
    Num,
    brief,
    combine,
    compare,
    equal,
    exact,
    negate,
    number,
    pointwise,
)
from accumlint.semantics.points import count_of

FRACTIONS = st.fractions(min_value=-50, max_value=50, max_denominator=20)
VALUES = st.one_of(st.none(), FRACTIONS)
SAMPLED = st.tuples(*[VALUES] * POINTS).map(lambda at: Num(at, "x", frozenset({"x"})))
DEFINED = st.tuples(*[FRACTIONS] * POINTS).map(lambda at: Num(at, "x", frozenset({"x"})))
LITERALS = FRACTIONS.map(number)
NUMBERS = st.one_of(SAMPLED, DEFINED, LITERALS)


def of(word: str, left: Num, right: Num) -> Num:
    result = combine(word, left, right)
    assert result is not None
    return result


@given(NUMBERS, NUMBERS, NUMBERS)
def test_the_laws_of_a_field(a: Num, b: Num, c: Num) -> None:
    assert of("+", a, b).at == of("+", b, a).at
    assert of("*", a, b).at == of("*", b, a).at
    assert of("+", of("+", a, b), c).at == of("+", a, of("+", b, c)).at
    assert of("*", of("*", a, b), c).at == of("*", a, of("*", b, c)).at
    assert of("*", a, of("+", b, c)).at == of("+", of("*", a, b), of("*", a, c)).at
    assert of("+", a, ZERO).at == of("*", a, ONE).at == of("/", a, ONE).at == a.at
    assert of("-", a, b).at == of("+", a, negate(b)).at


@given(DEFINED, NUMBERS)
def test_division_undoes_multiplication_where_it_is_defined(a: Num, b: Num) -> None:
    back = of("*", of("/", a, b), b)
    for was, by, now in zip(a.at, b.at, back.at, strict=True):
        assert now == (None if not by else was)


@given(NUMBERS, NUMBERS, st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "max", "min"]))
def test_undefined_is_contagious_and_nothing_else_becomes_so(a: Num, b: Num, word: str) -> None:
    result = of(word, a, b)
    for left, right, value in zip(a.at, b.at, result.at, strict=True):
        if left is None or right is None or (word in ("/", "//", "%") and not right):
            assert value is None
        elif word != "**":
            assert value is not None


@given(DEFINED, DEFINED)
def test_floor_and_remainder_agree_as_in_python(a: Num, b: Num) -> None:
    whole, rest = of("//", a, b), of("%", a, b)
    for left, right, quotient, remainder in zip(a.at, b.at, whole.at, rest.at, strict=True):
        if right:
            assert quotient is not None
            assert remainder is not None
            assert quotient * right + remainder == left
            assert quotient.denominator == 1


def test_zero_over_zero() -> None:
    zero = of("/", ZERO, ZERO)
    assert zero.at == (None,) * POINTS
    assert not equal(zero, zero)
    assert compare("==", zero, zero).answer is None
    assert not zero.is_constant
    assert of("*", zero, ZERO).at == zero.at


def test_powers_are_bounded() -> None:
    assert of("**", number(2), number(10)).constant == 1024
    assert of("**", number(2), number(-2)).constant == Fraction(1, 4)
    for left, right in ((2, 65), (2, Fraction(1, 2)), (0, -1)):
        assert of("**", number(left), number(right)).at == (None,) * POINTS
    assert combine("@", ONE, ONE) is None


def test_a_literal_may_not_vary() -> None:
    with pytest.raises(ValueError, match="varies"):
        Num((Fraction(1), Fraction(2), Fraction(1), Fraction(1)), "x")
    with pytest.raises(ValueError, match="not a constant"):
        _ = count_of(0, POINTS).constant


@pytest.mark.parametrize(
    ("value", "fraction"), [(0.7, Fraction(7, 10)), (True, Fraction(1)), (1e-3, Fraction(1, 1000))]
)
def test_a_float_is_what_was_written(value: float, fraction: Fraction) -> None:
    assert exact(value) == fraction


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        exact(value)


def test_literals_decide() -> None:
    assert compare("<", number(2), number(3)).answer is True
    assert compare("<", number(2), number(3)).basis is Basis.LITERAL
    assert compare("==", number(0.5), number(Fraction(1, 2))).answer is True
    assert number(4.0).as_int() == 4
    assert number(0.5).as_int() is None


def test_a_configuration_value_is_a_literal_with_a_name() -> None:
    steps = number(3, "args.accum", frozenset({"args.accum"}))
    assert compare("==", steps, number(3)).basis is Basis.LITERAL
    assert of("*", steps, steps).unknowns == {"args.accum"}


def test_an_order_that_all_points_agree_on_is_an_assumption() -> None:
    count = count_of(3, POINTS)  # positive in all points
    assert compare(">", count, ZERO).answer is True
    assert compare(">", count, ZERO).basis is Basis.SAMPLED


def test_points_that_disagree_leave_it_open() -> None:
    first, second = count_of(0, POINTS), count_of(1, POINTS)
    assert compare(">", second, first).answer is None  # the second is empty in point 2
    assert compare(">", second, first).basis is Basis.OPEN
    assert pointwise(">", second, first) == (True, True, False, False)


@given(NUMBERS, NUMBERS, st.sampled_from(["==", "!=", "<", "<=", ">", ">="]))
def test_a_comparison_answers_as_all_its_points_do(a: Num, b: Num, word: str) -> None:
    python = {
        "==": operator.eq,
        "!=": operator.ne,
        "<": operator.lt,
        "<=": operator.le,
        ">": operator.gt,
        ">=": operator.ge,
    }
    pairs = [(x, y) for x, y in zip(a.at, b.at, strict=True) if x is not None and y is not None]
    answers = {python[word](x, y) for x, y in pairs}
    result = compare(word, a, b)
    assert result.answer == (answers.pop() if len(answers) == 1 else None)
    assert (result.basis is Basis.OPEN) == (result.answer is None)


@given(st.text(max_size=400))
def test_texts_stay_short(text: str) -> None:
    assert len(brief(text)) <= LONGEST_TEXT
    total = number(1, text or "x")
    for _ in range(20):
        total = of("+", of("*", total, total), number(0, "rest"))
        assert len(total.text) <= LONGEST_TEXT


# ------------------------------------------------------------------------- an oracle that shares no code: sympy

LEAVES = st.sampled_from(["n0", "n1", "n3", "1", "2", "3"])
TREES = st.recursive(LEAVES, lambda inner: st.tuples(st.sampled_from("+-*/"), inner, inner), max_leaves=8)


def evaluated(tree: object) -> Num:
    if isinstance(tree, str):
        return count_of(int(tree[1:]), POINTS) if tree.startswith("n") else number(int(tree))
    word, left, right = tree  # type: ignore[misc]
    return of(word, evaluated(left), evaluated(right))


def as_text(tree: object) -> str:
    if isinstance(tree, str):
        return tree
    word, left, right = tree  # type: ignore[misc]
    return f"({as_text(left)} {word} {as_text(right)})"


@settings(max_examples=60)
@given(TREES, TREES)
def test_equal_by_points_is_equal_by_algebra(left: object, right: object) -> None:
    sympy = pytest.importorskip("sympy")
    first, second = sympy.sympify(as_text(left)), sympy.sympify(as_text(right))
    bad = (sympy.zoo, sympy.nan, sympy.oo, -sympy.oo)
    assume(not any(each.has(*bad) for each in (first, second)))
    a, b = evaluated(left), evaluated(right)
    assume(any(x is not None and y is not None for x, y in zip(a.at, b.at, strict=True)))
    same = sympy.simplify(first - second) == 0
    if same:  # an identity holds wherever both sides are defined
        assert equal(a, b)
    points = sum(x is not None and y is not None for x, y in zip(a.at, b.at, strict=True))
    if points == POINTS and not same:  # polynomial identity testing: four points tell small expressions apart
        assert not equal(a, b)


def test_the_text_is_written_as_python_writes_it() -> None:
    assert [each.text for each in map(combine, ("+", "max"), (number(2),) * 2, (number(3),) * 2) if each] == [
        "2 + 3",
        "max(2, 3)",
    ]
