"""A partial window that is flushed after its loop, by the index of the last batch: no length has to be known."""

from __future__ import annotations

from pathlib import Path

import pytest

import accumlint
from accumlint import Applicability
from accumlint.contract.judge import judge_regions
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Certificate
from accumlint.repair.confirm import certify
from accumlint.repair.plan import RepairPlan, plan_all
from accumlint.repair.rewrite import apply_edits

pytest.importorskip("torch")
STREAM = (Path(__file__).parents[1] / "end_to_end" / "shapes" / "loader_without_a_name.py").read_text(encoding="utf-8")
GUARD = "if (step + 1) % accumulation != 0:"


def certified(*changes: tuple[str, str]) -> Certificate:
    """The certificate of the planned repair with parts of its text replaced, beside the plan as it was."""
    module = read_module(STREAM, "t.py")
    plan = plan_all(module, judge_regions(module))[0]
    assert isinstance(plan, RepairPlan), plan.reason
    new = apply_edits(STREAM, plan.edits)
    for old, other in changes:
        assert old in new, new
        new = new.replace(old, other)
    return certify(module, judge_regions(module, thorough=True), plan, new, "t.py", confirm=True)


def test_the_planned_repair_is_safe() -> None:
    found = certified()
    assert found.applicability is Applicability.SAFE, (found.missing, found.disagreement)


@pytest.mark.parametrize(
    "change",
    [
        (GUARD, "if step % accumulation != 0:"),
        (GUARD, "if (step + 1) % accumulation == 0:"),
        (GUARD, "if step >= 0:"),
        (GUARD, "if (step + 2) % accumulation != 0:"),
        (GUARD, "if step % accumulation == 0:"),
        (
            f"        {GUARD}\n            for param_group",
            f"        {GUARD}\n            num_targets = 1\n            for param_group",
        ),
        (f"{GUARD}\n", f"{GUARD}\n            optimizer.step()\n"),
        (f"{GUARD}\n", f"{GUARD}\n            optimizer.zero_grad()\n"),
    ],
)
def test_a_wrong_flush_is_not_safe(change: tuple[str, str]) -> None:
    assert certified(change).applicability is not Applicability.SAFE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            loss = F", "            if step > 50:\n                break\n            loss = F"),
        ("            loss = F", "            if not labels.numel():\n                continue\n            loss = F"),
        ("            loss = F", "            step = step * 2\n            loss = F"),
        ("(step + 1) % accumulation == 0", "(step + 1) % (accumulation + epochs) == 0 and step > 3"),
        ("(step + 1) % accumulation == 0", "step % accumulation == 0"),
        ("batch_size=None))", "batch_size=None), 5)"),
    ],
)
def test_an_index_that_says_nothing_of_the_window_is_not_used(old: str, new: str) -> None:
    assert old in STREAM
    findings = accumlint.check_source(STREAM.replace(old, new), confirm=True).findings
    assert all("step = -1" not in edit.content for f in findings if f.fix is not None for edit in f.fix.edits)
