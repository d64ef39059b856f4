"""The lint of the tables: the real ones are clean, and each fault is seen."""

import pytest

from accumlint.apis.check import check_tables, render_row, render_table, row_faults
from accumlint.apis.language import (
    Advance,
    Arg,
    ArgAttr,
    Clip,
    Const,
    Count,
    Effect,
    Is,
    Iterate,
    Loss,
    Row,
    Step,
    Wrap,
)
from accumlint.apis.registry import load

LOSS = Loss(Const("mean"), targets=Arg("a"), count=Count.ROWS)


def test_all_tables_are_clean() -> None:
    check_tables(load())


def test_every_row_and_table_renders() -> None:
    for table in load().tables:
        text = render_table(table)
        assert all(row.call in text and row.source in text for row in table.rows)


@pytest.mark.parametrize(
    ("does", "word"),
    [
        pytest.param((Step(Arg("b")),), "not among its parameters", id="operand"),
        pytest.param((Step(ArgAttr("b", "x")),), "not among its parameters", id="attribute of an operand"),
        pytest.param((Step(Arg("a"), when=(Is(Arg("c"), 1),)),), "not among its parameters", id="condition"),
        pytest.param((Clip(Arg("a"), kind="size"),), "knows no kind", id="kind of clip"),
        pytest.param((Iterate("shuffle", (Arg("a"),)),), "knows no kind", id="kind of iteration"),
        pytest.param((Advance("clock", Arg("a")),), "no clock", id="clock"),
        pytest.param((Wrap((Arg("a"),), (), classes=("x", "y")),), "2 classes for 1", id="classes"),
        pytest.param((LOSS, LOSS), "two losses can hold at once", id="two losses"),
    ],
)
def test_sees(does: tuple[Effect, ...], word: str) -> None:
    faults = list(row_faults(Row("x", "a", "torch 2.13.0, x.py", does)))
    assert len(faults) == 1
    assert word in faults[0]


@pytest.mark.parametrize("source", ["torch, x.py", "", "somewhere 2.13.0", "torch two, x.py"])
def test_sees_a_source_without_release(source: str) -> None:
    assert list(row_faults(Row("x", "", source, ())))


def test_sees_bad_parameters() -> None:
    assert list(row_faults(Row("x", "a b", "torch 2.13.0, x.py", ())))


def test_losses_that_exclude_each_other_are_fine() -> None:
    cases = tuple(
        Loss(Const("mean"), targets=Arg("a"), count=Count.ROWS, when=(Is(Arg("a"), None, negated=negated),))
        for negated in (False, True)
    )
    assert not list(row_faults(Row("x", "a", "torch 2.13.0, x.py", cases)))


def test_a_row_reads_well() -> None:
    row = load().find("accelerate.Accelerator.backward")
    assert row is not None
    assert render_row(row).splitlines() == [
        "accelerate.Accelerator.backward(loss, **kwargs)",
        "    Backward(loss=loss, divided_by=self.gradient_accumulation_steps)",
        "    assumes: under DeepSpeed its engine divides by the same number of steps",
        "    source: accelerate 1.15.0, accelerator.py:2829-2863",
    ]
