"""A loss that gets its value in a branch: multiplied as a whole, each branch held against the count on its own."""

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
SHAPES = Path(__file__).parents[1] / "end_to_end" / "shapes"
ROBUST = (SHAPES / "branch_in_loop.py").read_text(encoding="utf-8")
HALF = (SHAPES / "branch_of_precision.py").read_text(encoding="utf-8")


def certified(text: str, *changes: tuple[str, str]) -> Certificate:
    """The certificate of the planned repair with parts of its text replaced, beside the plan as it was."""
    module = read_module(text, "t.py")
    plan = plan_all(module, judge_regions(module))[0]
    assert isinstance(plan, RepairPlan), plan.reason
    new = apply_edits(text, plan.edits)
    for old, other in changes:
        assert old in new, new
        new = new.replace(old, other)
    return certify(module, judge_regions(module, thorough=True), plan, new, "t.py", confirm=True)


def is_safe(text: str) -> bool:
    found = accumlint.check_source(text, confirm=True, select=["ACC101", "ACC102"]).findings
    assert found
    return any(f.fix is not None and f.fix.certificate.applicability is Applicability.SAFE for f in found)


@pytest.mark.parametrize("text", [ROBUST, HALF])
def test_the_planned_repair_is_safe(text: str) -> None:
    found = certified(text)
    assert found.applicability is Applicability.SAFE, (found.missing, found.disagreement)


@pytest.mark.parametrize(
    "changes",
    [
        (("batch_targets = y.numel()", "batch_targets = y.numel() if robust else 1"),),
        (("batch_targets = y.numel()", "batch_targets = x.numel()"),),
        (("batch_targets = y.numel()", "batch_targets = 1"),),
        ((" * batch_targets", ""),),
        (("(loss * batch_targets)", "(loss * batch_targets / accum)"),),
        (("(loss * batch_targets)", "(loss * num_targets)"),),
        (("F.smooth_l1_loss(prediction, y)", 'F.smooth_l1_loss(prediction, y, reduction="sum")'),),
        (("F.mse_loss(prediction, y)", 'F.mse_loss(prediction, y, reduction="sum")'),),
        (("F.mse_loss(prediction, y)", "F.mse_loss(prediction, y) / accum"),),
        (("            num_targets = 0\n", ""),),
        (("max(num_targets, 1)", "max(batch_targets, 1)"),),
    ],
)
def test_a_wrong_repair_of_a_branch_is_not_safe(changes: tuple[tuple[str, str], ...]) -> None:
    assert certified(ROBUST, *changes).applicability is not Applicability.SAFE


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("F.mse_loss(prediction, y)", 'F.mse_loss(prediction, y, reduction="sum")'),
        ("F.mse_loss(prediction, y)", "F.mse_loss(prediction, y) / accum"),
        ("F.mse_loss(prediction, y)", "F.mse_loss(prediction[:4], y[:4])"),
        ("F.mse_loss(prediction, y)", "F.mse_loss(prediction - prediction.mean(0), y)"),
        ("F.mse_loss(prediction, y)", "other(prediction, y)"),
        ("F.mse_loss(prediction, y)", "F.cross_entropy(prediction, y)"),
        ("        else:\n", "        elif model.training:\n            loss = other(prediction, y)\n        else:\n"),
        ("        loss = loss / accum\n", "        loss += other(prediction)\n        loss = loss / accum\n"),
        ("        loss = loss / accum\n", "        loss = loss / accum\n        y = y[:2]\n"),
    ],
)
def test_a_branch_with_another_loss_is_not_safe(old: str, new: str) -> None:
    assert old in ROBUST
    assert not is_safe(ROBUST.replace(old, new))
