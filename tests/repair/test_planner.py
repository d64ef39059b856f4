"""What the planner writes, as whole texts; what it refuses, with its reason; what `assure` never lets through."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from accumlint.analysis import judge_module
from accumlint.findings import Edit
from accumlint.reading.program import Span
from accumlint.reading.read import read_module
from accumlint.repair.assure import NotAssured, assure_text, comments
from accumlint.repair.names import Names
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits

CASES = sorted((Path(__file__).parents[1] / "cases" / "dev").glob("acc*.py"))


def plans(text: str) -> list[RepairPlan | Unrepairable]:
    module = read_module(text, "t.py")
    return plan_all(module, judge_module(module))


def repaired(text: str) -> str:
    for plan in plans(text):
        if isinstance(plan, RepairPlan):
            return apply_edits(text, plan.edits)
    raise AssertionError([plan.reason for plan in plans(text) if isinstance(plan, Unrepairable)])


def reasons(text: str) -> list[str]:
    return [plan.reason for plan in plans(text) if isinstance(plan, Unrepairable)]


LOOP = """\
import torch.nn.functional as F

def train(model, loader, optimizer, accum=4):
    total = 0.0
    for i, (x, y) in enumerate(loader):
        # forward
        loss = F.cross_entropy(model(x), y, ignore_index=0) / accum
        total += loss.item()  # logged
        loss.backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
    return total
"""

REPAIRED = """\
import torch.nn.functional as F

def train(model, loader, optimizer, accum=4):
    total = 0.0
    num_targets = 0
    for i, (x, y) in enumerate(loader):
        # forward
        batch_targets = int((y != 0).sum())
        num_targets += batch_targets
        loss_sum = F.cross_entropy(model(x), y, ignore_index=0, reduction="sum")
        loss = loss_sum.detach() / max(batch_targets, 1) / accum
        total += loss.item()  # logged
        loss_sum.backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            for param_group in optimizer.param_groups:
                for param in param_group["params"]:
                    if param.grad is not None:
                        param.grad.div_(max(num_targets, 1))
            optimizer.step()
            optimizer.zero_grad()
            num_targets = 0
    return total
"""


def test_deferred_normalisation_keeps_what_is_logged() -> None:
    assert repaired(LOOP.replace('reduction="sum"', "")) == REPAIRED


def test_without_logs_the_loss_itself_becomes_the_sum() -> None:
    text = repaired(LOOP.replace("        total += loss.item()  # logged\n", ""))
    assert 'loss = F.cross_entropy(model(x), y, ignore_index=0, reduction="sum")\n        loss.backward()' in text
    assert "/ accum" not in text


def test_names_do_not_clash() -> None:
    text = repaired(LOOP.replace("total", "num_targets").replace("(model, ", "(model, group, param, "))
    assert "num_targets_2 += batch_targets" in text
    assert 'for param_2 in param_group["params"]:' in text


@pytest.mark.parametrize("newline", ["\r\n", "\r"])
def test_line_ends_are_kept(newline: str) -> None:
    assert repaired(LOOP.replace("\n", newline)) == REPAIRED.replace("\n", newline)


def test_tabs_are_kept() -> None:
    assert repaired(LOOP.replace("    ", "\t")) == REPAIRED.replace("    ", "\t")


def test_a_criterion_that_is_used_elsewhere_is_rescaled() -> None:
    text = textwrap.dedent(
        """\
        from torch import nn

        def train(model, loader, optimizer, accum=4):
            criterion = nn.CrossEntropyLoss(ignore_index=0)
            for i, (x, y) in enumerate(loader):
                loss = criterion(model(x), y) / accum
                loss.backward()
                if (i + 1) % accum == 0 or i + 1 == len(loader):
                    optimizer.step()
                    optimizer.zero_grad()
            return criterion(model(x), y)
        """
    )
    new = repaired(text)
    assert "criterion = nn.CrossEntropyLoss(ignore_index=0)\n" in new
    assert "loss = criterion(model(x), y) * batch_targets\n" in new


def test_an_unknown_criterion_is_refused() -> None:
    text = LOOP.replace("F.cross_entropy(model(x), y, ignore_index=0)", "criterion(model(x), y)").replace(
        "(model, ", "(model, criterion, "
    )
    assert any("out of sight" in reason for reason in reasons(text))


def test_ranks_whose_averaging_is_out_of_sight_are_refused() -> None:
    text = LOOP.replace("def train", "from torch.nn.parallel import DistributedDataParallel\n\ndef train")
    assert any("where their gradients are averaged is not" in reason for reason in reasons(text))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_repairs_of_cases_are_complete(path: Path) -> None:
    text = path.read_text("utf-8")
    found = plans(text)
    for plan in found:
        if isinstance(plan, Unrepairable):
            assert len(plan.reason.splitlines()) == 1
            continue
        new = apply_edits(text, plan.edits)
        assert not comments(text) - comments(new)
        clauses = {violation.clause for violation in plan.violations}
        again = [p for p in plans(new) if isinstance(p, RepairPlan)]
        assert not any(clauses & {v.clause for v in p.violations} for p in again)


def test_assure_refuses_a_repair_that_loses_a_comment_or_leaves_the_fault() -> None:
    plan = next(plan for plan in plans(LOOP) if isinstance(plan, RepairPlan))
    lines = LOOP.split("\n")
    number = lines.index("        # forward") + 1
    lost = Edit(Span(number, 0, number + 1, 0), "")
    with pytest.raises(NotAssured, match="comment"):
        assure_text(LOOP, "t.py", RepairPlan(plan.region, plan.violations, (lost,), (), ""))
    harmless = Edit(Span(4, 12, 4, 15), "0.00")
    with pytest.raises(NotAssured, match="leaves"):
        assure_text(LOOP, "t.py", RepairPlan(plan.region, plan.violations, (harmless,), (), ""))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("            num_targets = 0\n", ""),  # never reset
        ("num_targets += batch_targets", "num_targets = batch_targets"),
        ("max(num_targets, 1))", "accum)"),
    ],
)
def test_assure_refuses_wrong_weights(old: str, new: str) -> None:
    plan = next(plan for plan in plans(LOOP) if isinstance(plan, RepairPlan))
    wrong = REPAIRED.replace(old, new)
    assert wrong != REPAIRED
    whole = Edit(Span(1, 0, LOOP.count("\n") + 1, 0), wrong)
    with pytest.raises(NotAssured):
        assure_text(LOOP, "t.py", RepairPlan(plan.region, plan.violations, (whole,), plan.obligations, ""))


def test_free_names() -> None:
    names = Names("num_targets = other")
    assert [names.free("num_targets"), names.free("num_targets"), names.free("free")] == [
        "num_targets_2",
        "num_targets_3",
        "free",
    ]


SCALED = """\
import torch
import torch.nn.functional as F


def loop(net, data, optimizer, scaler, total, accum):
    for it in range(total):
        x = data[torch.randint(0, data.size(0), (8,))]
        loss = F.mse_loss(net(x), x) / accum
        scaler.scale(loss).backward()
        {each}
        if (it + 1) % accum == 0:
            {ending}
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
"""
CLIPS, UNSCALES = "torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)", "scaler.unscale_(optimizer)"


@pytest.mark.parametrize(
    ("each", "ending"), [("pass", f"{CLIPS}\n            {UNSCALES}"), (CLIPS, UNSCALES), (CLIPS, "pass")]
)
def test_unscale_stands_once_and_before_the_clip(each: str, ending: str) -> None:
    text = repaired(SCALED.format(each=each, ending=ending))
    assert text.count("unscale_") == 1  # a second one before `update` raises
    window = text[text.index("if (it + 1)") :]
    assert window.index("unscale_") < window.index("clip_grad_norm_") < window.index("scaler.step")


HELD = """\
import torch.nn.functional as F

def train(model, loader, optimizer, accum=4):
    for epoch in range(3):
        tokens, held = 0, 0
        for x, y in loader:
            F.cross_entropy(model(x), y, reduction="sum").backward()
            tokens += int((y != -100).sum())
            held += 1
            if held == accum:
                for p in model.parameters():
                    p.grad.div_(tokens)
                optimizer.step()
                optimizer.zero_grad()
                tokens, held = 0, 0
"""


def test_a_flush_asks_the_counter_that_starts_anew_beside_another() -> None:
    lines = repaired(HELD).splitlines()
    at = lines.index("        if held > 0:")
    assert lines[at + 1 :] == [
        "            for p in model.parameters():",
        "                p.grad.div_(tokens)",
        "            optimizer.step()",
        "            optimizer.zero_grad()",
        "            tokens, held = 0, 0",
    ]


def test_the_last_batch_behind_a_progress_bar_is_that_of_its_loader() -> None:
    looped = LOOP.replace("(loader):", "(bar):").replace(" or i + 1 == len(loader)", "")
    shown = looped.replace("    total = 0.0\n", "    bar = tqdm(loader)\n    total = 0.0\n")
    assert "or i + 1 == len(bar):" in repaired("from tqdm import tqdm\n" + shown)
    unknown = shown.replace("tqdm(loader)", "tqdm(stream())")
    assert "len(bar)" not in "".join(e.content for p in plans(unknown) if isinstance(p, RepairPlan) for e in p.edits)


def test_a_count_takes_the_place_of_the_steps_in_a_call_that_scales_gradients() -> None:
    scaled = f"scale_grads(model, 1 / accum)\n{' ' * 12}optimizer.step()"
    text = LOOP.replace(" / accum\n", "\n").replace("optimizer.step()", scaled)
    text = f"from torchtune.training import scale_grads\n{text}"
    assert "scale_grads(model, 1 / max(num_targets, 1))\n" in repaired(text)
    assert not reasons(text)
    unusual = text.replace("1 / accum)", "accum**-1)")
    assert set(reasons(unusual)) == {"its gradients are divided by hand, in an unusual way"}
