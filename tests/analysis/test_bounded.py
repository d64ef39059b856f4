"""Whatever a file is like, its check ends soon: as checked, as not reached with a reason, or as refused in one line."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable

import pytest

from accumlint.analysis import Options, check_source
from accumlint.findings import FileReport
from accumlint.reading.errors import TOO_DEEP
from accumlint.source.suppressions import Suppressions
from accumlint.source.text import SourceText

SECONDS = 60.0
"""A fence against hanging, in time of the processor: the slowest takes a sixth of it on an idle machine."""

LOOP = """
def train{n}(model, loader, optimizer, criterion):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
"""
FIRST = LOOP.format(n=0)


def inside(expression: str) -> str:
    """The loop with an assignment that the interpreter has to look at."""
    return FIRST.replace(
        "        loss.backward()\n", f"        loss = loss * ({expression})\n        loss.backward()\n"
    )


ENDS: dict[str, Callable[[], str]] = {
    "100,000 lines": lambda: FIRST + "x = 1\n" * 100_000,
    "5,000 functions": lambda: "def f(a):\n    return a\n" * 5_000 + FIRST,
    "10,000 lines in the loop": lambda: FIRST + "        a = b\n" * 10_000,
    "30,000 comments": lambda: FIRST + "# noqa: ACC101\n" * 30_000,
    "100 loops": lambda: "".join(LOOP.format(n=n) for n in range(100)),
    "3,000 classes": lambda: FIRST + "class A:\n    def step(self):\n        self.loss.backward()\n" * 3_000,
    "5,000 imports": lambda: "".join(f"from a{n} import b{n} as c{n}\n" for n in range(5_000)) + FIRST,
    "an integer of 4,000 digits": lambda: inside("9" * 4_000),
    "an integer of 100,000 hexadecimal digits": lambda: inside("0x" + "f" * 100_000),
    "a float beyond all floats": lambda: inside("1e999999"),
    "a float below all floats": lambda: inside("1e-999999"),
    "a power of a power": lambda: inside("10 ** 10 ** 10 ** 10"),
    "a large shift": lambda: inside("1 << 10 ** 12"),
    "a long repetition": lambda: inside("len('ab' * 10 ** 12)"),
    "a string of 3 MB": lambda: inside(f"len('{'a' * 3_000_000}')"),
    "a docstring of 3 MB": lambda: f"'''{'a b ' * 750_000}'''\n" + FIRST,
    "a line of 1 MB": lambda: FIRST + "x = [" + "1, " * 330_000 + "]\n",
    "a table of 20,000 names": lambda: "x = {" + "".join(f"'k{n}': v{n},\n" for n in range(20_000)) + "}\n" + FIRST,
    "a call with 5,000 arguments": lambda: inside("f(" + "a, " * 5_000 + ")"),
    "5,000 targets": lambda: FIRST + "        " + "a = " * 5_000 + "1\n",
    "5,000 decorators": lambda: FIRST + "@a\n" * 5_000 + "def f(): pass\n",
    "3,000 elifs": lambda: FIRST + "if a == 0: pass\n" + "".join(f"elif a == {n}: pass\n" for n in range(3_000)),
    "80 loops in each other": lambda: (
        "def train(model, loader, optimizer, criterion):\n"
        + "".join(" " * (n + 1) + f"for a{n} in range(2):\n" for n in range(80))
        + "".join(" " * 81 + line[4:] + "\n" for line in FIRST.splitlines()[2:])
    ),
    "a comprehension of 50 parts": lambda: inside("sum(1" + "".join(f" for a{n} in range(9)" for n in range(50)) + ")"),
}
DEEP: dict[str, Callable[[int], str]] = {
    "brackets": lambda n: FIRST + "x = " + "(" * n + "1" + ")" * n + "\n",
    "lists": lambda n: FIRST + "x = " + "[" * n + "]" * n + "\n",
    "calls": lambda n: FIRST + "x = " + "f(" * n + ")" * n + "\n",
    "attributes": lambda n: FIRST + "x = a" + ".b" * n + "\n",
    "called attributes": lambda n: FIRST + "x = a" + ".b()" * n + "\n",
    "subscripts": lambda n: FIRST + "x = a" + "[0]" * n + "\n",
    "sums": lambda n: FIRST + "x = 1" + " + 1" * n + "\n",
    "powers": lambda n: FIRST + "x = 1" + " ** 1" * n + "\n",
    "signs": lambda n: FIRST + "x = " + "-" * n + "1\n",
    "nots": lambda n: FIRST + "x = " + "not " * n + "1\n",
    "ands": lambda n: FIRST + "x = 1" + " and 1" * n + "\n",
    "comparisons": lambda n: FIRST + "x = 1" + " < 1" * n + "\n",
    "lambdas": lambda n: FIRST + "x = " + "lambda: " * n + "1\n",
    "conditions": lambda n: FIRST + "x = " + "1 if a else " * n + "1\n",
    "strings": lambda n: FIRST + "x = " + "'a' " * n + "\n",
    "formats": lambda n: FIRST + "x = f'" + "{a}" * n + "'\n",
    "annotations": lambda n: FIRST + "x: " + "A[" * n + "B" + "]" * n + " = 1\n",
}


def checked(text: str, repair: bool = False) -> FileReport:
    """The report of a check; the time that it takes is held against the fence."""
    source = SourceText.from_bytes("bounded.py", text.encode())
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Suppressions(source.text)
        report = check_source(source, Options(repair=repair))
    assert time.process_time() - began < SECONDS
    assert not [problem for problem in report.problems if problem.internal]
    assert all("\n" not in problem.message for problem in report.problems)
    return report


@pytest.mark.parametrize("name", ENDS)
def test_what_is_long_or_large_is_checked_or_said(name: str) -> None:
    report = checked(ENDS[name]())
    assert report.problems or report.loops, "a loop that is there is analysed or not reached, with a reason"
    for loop in report.loops:
        assert loop.reason or loop.status.value == "analysed"


@pytest.mark.parametrize("levels", [90, 1_000, 20_000])
@pytest.mark.parametrize("name", DEEP)
def test_what_is_nested_deeply_is_checked_or_refused(name: str, levels: int) -> None:
    report = checked(DEEP[name](levels))
    assert report.problems or report.loops


def test_where_the_bounds_are() -> None:
    """Levels that people write are checked, those that would overflow a parser's stack are refused."""
    assert checked(DEEP["calls"](30)).findings
    assert [each.message for each in checked(DEEP["calls"](20_000)).problems] == [TOO_DEEP]
    assert checked(ENDS["100,000 lines"](), repair=True).findings
    assert "too large" in checked("x = 1\n" * 1_000_000).problems[0].message
