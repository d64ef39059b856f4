"""What a run learns on its way leaves no trace: it equals one that knew everything from its start."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from textwrap import dedent

import pytest
from loop_snippets import results

from accumlint.apis.registry import load
from accumlint.reading.read import read_module
from accumlint.semantics import run
from accumlint.semantics.run import analyse
from accumlint.semantics.trace import render

DEV = Path(__file__).parents[1] / "cases" / "dev"
FILES = sorted(DEV.glob("*.py"))


@pytest.fixture
def pairs(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Each settled path as it was found, and as it is when it begins with what it had learned at its end."""
    seen: list[tuple[str, str]] = []
    settle = run._settle

    def settled_twice(program, region, knowledge, forced):
        machine, fixed = settle(program, region, knowledge, forced)
        again, _ = settle(program, region, deepcopy(knowledge), forced)
        seen.append((render(machine.trace), render(again.trace)))
        return machine, fixed

    monkeypatch.setattr(run, "_settle", settled_twice)
    return seen


def test_there_are_files() -> None:
    assert len(FILES) > 60


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_settled_path_is_the_same_from_its_start(path: Path, pairs: list[tuple[str, str]]) -> None:
    found = results(path.read_text(encoding="utf-8"))
    for result in found:
        len(result.default)  # the other K too
    assert len(pairs) >= len(found)
    assert all(first == again for first, again in pairs)


LOOP = """
    import torch
    def train(model, loader, args):
        opt = torch.optim.SGD(model.parameters(), lr=0.1)
        {before}
        for i, (x, y) in enumerate(loader):
            loss = torch.nn.functional.cross_entropy(model(x), y)
            (loss / args.accum_steps).backward()
            if (i + 1) % args.accum_steps == 0:
                opt.step()
                opt.zero_grad()
"""


def count_runs(monkeypatch: pytest.MonkeyPatch, source: str) -> int:
    runs = []
    once = run._run_once

    def counted(machine, region):
        runs.append(region.name)
        once(machine, region)

    monkeypatch.setattr(run, "_run_once", counted)
    (result,) = results(dedent(source))
    assert result.default.first.steps == 3
    assert result.default.first.steps_text == "args.accum_steps"
    return len(runs)


@pytest.mark.parametrize(
    "before",
    [
        "pass",
        "updates = len(loader) // args.accum_steps",
        "assert args.accum_steps > 0",
        "if args.accum_steps < 1: raise ValueError(args.accum_steps)",
        "print('training for', 3 * args.accum_steps)",
    ],
)
def test_k_is_learned_in_the_first_run(monkeypatch: pytest.MonkeyPatch, before: str) -> None:
    assert count_runs(monkeypatch, LOOP.format(before=before)) == 1


def test_another_number_of_steps_is_run_when_somebody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    runs: list[str] = []
    once = run._run_once
    monkeypatch.setattr(run, "_run_once", lambda machine, region: (runs.append(region.name), once(machine, region)))
    (result,) = results(dedent(LOOP.format(before="pass")))
    assert len(runs) == 1
    assert [trace.steps for trace in result.default] == [3, 2]
    assert len(runs) == 2
    assert result.default[1] is result.default.known[1]
    assert len(runs) == 2


def test_a_name_that_is_no_number_of_steps_is_taken_back(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is only compared: the loop steps for each microbatch whatever it is."""
    source = """
        import torch
        def train(model, loader, opt, args):
            if args.accum_steps > 1:
                print("not supported")
            for x, y in loader:
                opt.zero_grad()
                torch.nn.functional.cross_entropy(model(x), y).backward()
                opt.step()
    """
    (result,) = results(dedent(source))
    assert result.default.first.steps is None
    assert len(result.default) == 1


CHOSEN = """
import torch.nn.functional as F
def train(model, loader, optimizer, accum, robust):
    for i, (x, y) in enumerate(loader):
        if robust:
            loss = F.smooth_l1_loss(model(x), y)
        else:
            loss = F.mse_loss(model(x), y)
        (loss / accum).backward()
        if (i + 1) % accum == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_a_branch_that_binds_a_loss_has_a_path_for_each_side() -> None:
    """In the first iteration nothing is bound yet; that a loss hangs on the test shows when it is asked again."""
    (result,) = analyse(read_module(CHOSEN, "t.py"), load(), thorough=True)
    calls = {
        site.call
        for path in (result.default, *result.flipped)
        for trace in path
        for event in trace.events
        if event.form is not None
        for site, _ in event.form.terms
    }
    assert calls == {"torch.nn.functional.smooth_l1_loss", "torch.nn.functional.mse_loss"}
