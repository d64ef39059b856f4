"""Counts that a contract declares: what the certificate says of them, and counts that are not the contract's."""

from __future__ import annotations

from dataclasses import replace

import pytest

from accumlint.contract.judge import judge_regions
from accumlint.reading.contracts import make_contract
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Applicability, Check
from accumlint.repair.confirm import certify, certify_derived
from accumlint.repair.plan import plan_repairs
from accumlint.repair.rewrite import apply_edits

TEXT = """
from transformers import AutoModelForCausalLM
from tiny import model_loss

def train(loader, optimizer, accum=4):
    model = AutoModelForCausalLM.from_pretrained("gpt2")
    for i, batch in enumerate(loader):
        loss = model(**batch).loss
        (loss / accum).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
COUNT = '(batch["labels"][..., 1:] != -100).sum()'


def planned(text: str = TEXT):
    module = read_module(text, "train.py")
    judged = judge_regions(module, thorough=True)
    (plan,) = plan_repairs(module, judged)
    return module, judged, plan, apply_edits(text, plan.edits)


def test_a_declared_count_is_an_assumption_and_not_safe() -> None:
    pytest.importorskip("torch")
    module, judged, plan, new = planned()
    assert f"int({COUNT})" in new
    found = certify(module, judged, plan, new, "train.py", confirm=True)
    assert found.discharged == {Check.PROVED, Check.EXECUTED, Check.DECLARED}
    assert found.applicability is Applicability.UNSAFE
    assert found.level == "executed"
    assert any("is a mean over `(labels[..., 1:] != -100).sum()`" in text for text in found.assumptions)
    assert "not leaf-checked: what the loss divides by is declared, not seen" in found.missing


@pytest.mark.parametrize(
    "wrong",
    [
        '(batch["labels"] != -100).sum()',
        '(batch["labels"][..., 1:] != 0).sum()',
        'batch["labels"].numel()',
        'batch["attention_mask"].sum()',
        '(batch["labels"][..., :-1] != -100).sum()',
    ],
)
def test_another_count_is_not_the_declared_one(wrong: str) -> None:
    pytest.importorskip("torch")
    module, judged, plan, new = planned()
    lying = replace(plan, obligations=tuple(replace(o, count_text=f"int({wrong})") for o in plan.obligations))
    changed = new.replace(COUNT, wrong)
    for obligations, text in ((lying, changed), (plan, changed), (lying, new)):
        found = certify(module, judged, obligations, text, "train.py", confirm=True)
        assert Check.DECLARED not in found.discharged
        assert found.applicability is not Applicability.SAFE
    assert certify_derived(TEXT, changed, "train.py").applicability is not Applicability.SAFE


def test_a_count_that_is_passed_to_the_model_ends_the_contract() -> None:
    text = TEXT.replace("model(**batch)", "model(**batch, num_items_in_batch=n)")
    module = read_module(text, "train.py")
    sites = {
        s for j in judge_regions(module) for t in j.result.default for e in t.events if e.form for s, _ in e.form.terms
    }
    assert {site.reduction for site in sites} == {"unknown"}
    assert all(site.hidden is None for site in sites)


def test_contracts_of_the_configuration_come_first() -> None:
    own = make_contract("AutoModelForCausalLM", "(labels != -1).sum()")
    module = read_module(TEXT, "train.py", contracts=(own,))
    (plan,) = plan_repairs(module, judge_regions(module))
    assert [o.count_text for o in plan.obligations] == ['int((batch["labels"] != -1).sum())']
    assert [o.declared for o in plan.obligations] == [own.text]
