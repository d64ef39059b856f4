"""A loss that is multiplied by a fraction instead of divided: the fraction goes as the division would."""

from __future__ import annotations

import pytest

import accumlint
from accumlint import Applicability
from accumlint.contract.judge import judge_regions
from accumlint.reading.read import read_module
from accumlint.repair.confirm import certify
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits

pytest.importorskip("torch")
LOOP = """\
import torch.nn.functional as F

def train(model, loader, optimizer, accum=4):
    scale = 1.0 / accum
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(model(x), y, ignore_index=-100)
        BACKWARD
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""


def plan_of(text: str, strategy: str = "auto") -> RepairPlan | Unrepairable:
    module = read_module(text, "t.py")
    return plan_all(module, judge_regions(module), strategy)[0]


@pytest.mark.parametrize(
    "backward",
    [
        "(loss * (1 / accum)).backward()",
        "((1 / accum) * loss).backward()",
        "loss.mul(1.0 / accum).backward()",
        "loss = loss * (1 / accum)\n        loss.backward()",
        "loss = (1 / accum) * loss\n        log(loss)\n        loss.backward()",
    ],
)
def test_a_fraction_goes_as_a_division_does(backward: str) -> None:
    text = LOOP.replace("BACKWARD", backward)
    (finding,) = accumlint.check_source(text, confirm=True, select=["ACC101"]).findings
    assert finding.fix is not None, finding.unfixable
    certificate = finding.fix.certificate
    assert certificate.applicability is Applicability.SAFE, certificate.missing
    plan = plan_of(text)
    assert isinstance(plan, RepairPlan)
    left = apply_edits(text, plan.edits).partition("loss =")[2].count("/ accum")
    assert left == backward.count("log(loss)")  # what is logged stays as it is


@pytest.mark.parametrize("wrong", ["(loss * (1 / accum)).backward()", "(loss / 2).backward()", "(loss * 2).backward()"])
def test_a_fraction_that_is_left_is_not_safe(wrong: str) -> None:
    text = LOOP.replace("BACKWARD", "(loss * (1 / accum)).backward()")
    module, plan = read_module(text, "t.py"), plan_of(text)
    assert isinstance(plan, RepairPlan)
    new = apply_edits(text, plan.edits)
    assert "loss.backward()" in new, new
    new = new.replace("loss.backward()", wrong)
    found = certify(module, judge_regions(module, thorough=True), plan, new, "t.py", confirm=True)
    assert found.applicability is not Applicability.SAFE


@pytest.mark.parametrize(
    ("backward", "strategy", "reason"),
    [
        ("loss = loss * scale\n        loss.backward()", "auto", "which side of a product is the loss is not plain"),
        ("(loss * (1 / accum)).backward()", "precount", "the loss is multiplied by a fraction instead of divided"),
    ],
)
def test_what_is_not_plain_is_refused_with_its_reason(backward: str, strategy: str, reason: str) -> None:
    plan = plan_of(LOOP.replace("BACKWARD", backward), strategy)
    assert isinstance(plan, Unrepairable)
    assert plan.reason == reason
