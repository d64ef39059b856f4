"""The pipeline for one file: findings with places, loops with their status, and no exception for any input."""

from __future__ import annotations

import json
import textwrap

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accumlint.analysis import LARGEST_TEXT, Options, check_source
from accumlint.findings import FileReport, LoopStatus
from accumlint.source.notebook import NotebookText
from accumlint.source.text import SourceText

LOOP = """\
import torch
import torch.nn.functional as F


def train(net, loader):
    opt = torch.optim.SGD(net.parameters(), lr=0.1)
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y, ignore_index=0) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            opt.step()
            opt.zero_grad()
"""


def check(text: str, options: Options | None = None) -> FileReport:
    return check_source(SourceText.from_bytes("train.py", text.encode("utf-8", "replace")), options)


def test_findings_are_sorted_and_carry_their_numbers() -> None:
    report = check(LOOP)
    assert [(f.code, f.span.line, f.span.column) for f in report.findings] == [("ACC101", 9, 8), ("ACC304", 10, 8)]
    first = report.findings[0]
    assert first.filename == "train.py"
    assert first.numbers["counts"] == "2, 5, 3, 7"
    assert first.numbers["weights"] == "1/4, 1/4, 1/4, 1/4"
    assert first.numbers["steps"] == "4"
    assert "with 2 and 7 valid targets" in first.message
    assert "3.5x" in first.message
    assert first.fix is None
    assert not report.problems


def test_only_the_wanted_codes() -> None:
    assert [f.code for f in check(LOOP, Options(codes=frozenset({"ACC304"}))).findings] == ["ACC304"]
    assert not check(LOOP, Options(codes=frozenset())).findings


def test_a_loop_that_is_analysed() -> None:
    (loop,) = check(LOOP).loops
    assert loop.status is LoopStatus.ANALYSED
    assert loop.reason == ""
    assert loop.span.line == 5  # the function that was run


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("t = sum(a for a in range(500) for b in range(500) for c in range(500))\n"
         "loss.backward()\nopt.step()", "the step budget is spent"),
        ("for x, y in loader:\n    F.cross_entropy(net(x), y).backward()", "no step of an optimizer was seen"),
        ("for x, y in loader:\n    F.cross_entropy(net(x), y).backward()\n"
         "    if x.ready():\n        opt.step()\n        break",
         "no step of an optimizer was seen: nothing decides the `if` on line 5"),
        ("F.cross_entropy(net(step), loss).backward()",
         "no step of an optimizer was seen: a backward for a caller elsewhere"),
        ("n = 0\nwhile n < 9:\n    loss.backward()\nopt.step()", "a loop is too long to be followed"),
    ],
    ids=["budget", "no step", "guarded step", "helper", "endless"],
)  # fmt: skip
def test_a_loop_that_is_not_reached_says_why(body: str, reason: str) -> None:
    text = "import torch.nn.functional as F\ndef train(net, loader, opt, loss, step):\n" + textwrap.indent(body, "    ")
    report = check(text)
    (loop,) = report.loops
    assert (loop.status, loop.reason) == (LoopStatus.NOT_REACHED, reason)
    assert not report.findings


def test_no_loop_no_status() -> None:
    assert check("print('step backward')\n") == FileReport("train.py")
    assert check("") == FileReport("train.py")


@pytest.mark.parametrize(
    "text",
    [
        LOOP + "def (:\n",
        "print 'x'\n" + LOOP,
        LOOP.replace("    opt", "  opt"),
        LOOP + "x = " + "(" * 2000 + ")" * 2000 + "\n",
        LOOP + "x = " + "-" * 100_000 + "1\n",
        LOOP + "".join(f"{' ' * depth}if x:\n" for depth in range(120)) + " " * 121 + "pass\n",
        "x = (\n",
    ],
    ids=["syntax", "python 2", "indentation", "brackets", "minus", "nested ifs", "no loop"],
)
def test_bad_input_is_a_problem_with_a_place(text: str) -> None:
    report = check(text)
    (problem,) = report.problems
    assert problem.filename == "train.py"
    assert problem.message
    assert not problem.internal
    assert not report.findings


def test_too_large_a_file_is_refused_and_not_read() -> None:
    (problem,) = check("#" * (LARGEST_TEXT + 1)).problems
    assert "too large" in problem.message


LINES = LOOP.splitlines(keepends=True)


@settings(max_examples=60)
@given(
    st.lists(st.sampled_from(range(len(LINES))), max_size=16),
    st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8),
)
def test_never_raises(order: list[int], noise: str) -> None:
    report = check("".join(LINES[place] for place in order) + noise)
    assert all(not problem.internal for problem in report.problems)


@settings(max_examples=100)
@given(
    st.integers(0, len(LOOP)),
    st.integers(0, 12),
    st.sampled_from(["", "(", "\n", "yield ", "await x", "\\", "*", ":="]),
)
def test_never_raises_for_a_damaged_loop(place: int, length: int, more: str) -> None:
    report = check(LOOP[:place] + more + LOOP[place + length :])
    assert all(not problem.internal for problem in report.problems)


# ------------------------------------------------------------------------------------------------------ notebooks


def notebook(*cells: str) -> NotebookText:
    content = {
        "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# Training"]}]
        + [{"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": c} for c in cells],
        "metadata": {},
        "nbformat": 4,
        "nbformat_minor": 5,
    }
    return NotebookText.from_bytes("train.ipynb", json.dumps(content).encode())


def test_findings_of_a_notebook_are_on_the_lines_of_its_cells() -> None:
    head, tail = LOOP.split("\n\n\n")
    source = notebook("%matplotlib inline\n" + head, "!nvidia-smi", tail)
    report = check_source(source)
    places = [(f.code, source.locate(f.span.line)) for f in report.findings]
    assert [(code, place.cell, place.line) for code, place in places] == [("ACC101", 4, 5), ("ACC304", 4, 6)]


def test_a_loop_over_several_cells() -> None:
    top = LOOP.replace("def train(net, loader):\n", "net, loader = make()\n").replace("\n    ", "\n")
    head, tail = top.split("for i, ")
    source = notebook(head, "for i, " + tail)
    report = check_source(source)
    place = source.locate(report.findings[0].span.line)
    assert (report.findings[0].code, place.cell, place.line) == ("ACC101", 3, 3)


def test_a_cell_that_cannot_be_parsed_is_a_problem() -> None:
    (problem,) = check_source(notebook(LOOP, "def (:")).problems
    assert notebook(LOOP, "def (:").locate(problem.line).cell == 3
