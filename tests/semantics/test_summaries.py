"""What functions can do is found out once, and following them ends with a budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from accumlint.apis.registry import load
from accumlint.reading import ir
from accumlint.reading.read import read_module
from accumlint.semantics import relevance, summaries
from accumlint.semantics.knowledge import FILE_BUDGET, Program
from accumlint.semantics.regions import find_regions
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.run import Result, run_region

LOOP = """
def train(model, loader, optimizer, criterion):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 4
        {before}
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def chain(length: int, last: str) -> str:
    """Functions of which each calls the next twice."""
    links = [f"def f{n}(a):\n    f{n + 1}(a)\n    return f{n + 1}(a)\n" for n in range(length)]
    return "".join(links) + f"def f{length}(a):\n    {last}\n    return a\n"


def run(text: str) -> tuple[Result, int]:
    """The result of `train`, and how many nodes all its runs took."""
    module = read_module(text, "train.py")
    program = Program(module, load(), Relevance.of(module.nodes))
    region = next(region for region in find_regions(program) if region.name == "train")
    result = run_region(program, region)
    return result, FILE_BUDGET - program.budget


def test_a_short_chain_is_followed_to_its_end() -> None:
    """`loss` comes back through the chain: cut off, it would be a loss of which nothing is known."""
    result, _ = run(chain(3, "a = a / 2") + LOOP.format(before="loss = f0(loss)"))
    coefficient = next(iter(result.default[0].events[0].gradient.values()))
    assert coefficient.constant * 8 == 1


def test_a_long_chain_of_events_ends_with_the_budget() -> None:
    result, spent = run(chain(13, "a.backward()") + LOOP.format(before="f0(loss)"))
    assert result.stopped
    assert spent <= FILE_BUDGET


def test_a_long_chain_reaches_what_its_end_does() -> None:
    module = read_module(chain(3_000, "a.step()"), "train.py")
    assert Relevance.of(module.nodes).reached_by("f0") == {"step"}
    circle = read_module("def a():\n    b()\ndef b():\n    c()\ndef c():\n    a()\n    x.backward()\n", "train.py")
    assert {Relevance.of(circle.nodes).reached_by(name) for name in "abc"} == {frozenset({"backward"})}


def test_a_function_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many runs, calls and branches ask what it can do."""
    read: list[int] = []
    original = relevance.read_block

    def counted(block: Sequence[ir.Statement], within: Callable[..., summaries.Block]) -> summaries.Block:
        read.append(id(block))
        return original(block, within)

    monkeypatch.setattr(relevance, "read_block", counted)
    run(chain(6, "a + 1") + LOOP.format(before="f0(i)"))
    assert len(read) == len(set(read)) > 6
