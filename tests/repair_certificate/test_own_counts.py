"""Terms with counts of their own, optimizers that step together, targets that are drawn: the planned repair is safe,
and no wrong one beside it is, whatever its plan says."""

from __future__ import annotations

from pathlib import Path

import pytest

from accumlint.contract.judge import judge_regions
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Applicability, Certificate
from accumlint.repair.confirm import certify
from accumlint.repair.plan import DEFERRED, PRECOUNT, RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits

pytest.importorskip("torch")
SHAPES = Path(__file__).parents[1] / "end_to_end" / "shapes"
SPANS = (SHAPES / "span_start_and_end.py").read_text(encoding="utf-8")
NOISE = (SHAPES / "noise_prediction.py").read_text(encoding="utf-8")
TWO = (SHAPES / "encoder_and_head_optimizers.py").read_text(encoding="utf-8")
DICT = (SHAPES / "loss_dict_summed.py").read_text(encoding="utf-8")


def planned(text: str) -> RepairPlan | Unrepairable:
    module = read_module(text, "t.py")
    return plan_all(module, judge_regions(module))[0]


def certified(text: str, *changes: tuple[str, str], strategy: str = PRECOUNT) -> Certificate:
    """The certificate of the planned repair with parts of its text replaced, beside the plan as it was."""
    plan = planned(text)
    assert isinstance(plan, RepairPlan), plan.reason
    assert plan.strategy == strategy
    new = apply_edits(text, plan.edits)
    for old, other in changes:
        assert old in new, new
        new = new.replace(old, other)
    module = read_module(text, "t.py")
    return certify(module, judge_regions(module, thorough=True), plan, new, "t.py", confirm=True)


@pytest.mark.parametrize("text", [SPANS, DICT, TWO])
def test_the_planned_repair_is_safe(text: str) -> None:
    found = certified(text)
    assert found.applicability is Applicability.SAFE, (found.missing, found.disagreement)


FIRST, SECOND = "max(num_targets, 1)", "max(num_targets_2, 1)"


@pytest.mark.parametrize(
    "changes",
    [
        ((FIRST, "max(swapped, 1)"), (SECOND, FIRST), ("max(swapped, 1)", SECOND)),
        ((SECOND, FIRST),),
        ((FIRST, SECOND),),
        ((FIRST, "max(num_targets + num_targets_2, 1)"), (SECOND, "max(num_targets + num_targets_2, 1)")),
        (("(end != -1).sum()", "(start != -1).sum()"), ("(_, _, end) in window", "(_, start, _) in window")),
        (("int((end != -1).sum())", "end.numel()"),),
        ((" / max(num_targets_2, 1)", ""),),
        ((" / max(num_targets_2, 1)", " / gradient_accumulation_steps"),),
        ((FIRST, "max(len(window), 1)"),),
        (("loss.backward()", "(loss / gradient_accumulation_steps).backward()"),),
        ((', reduction="sum"', ""),),
        (("(start_loss + end_loss) / 2", "(start_loss + 2 * end_loss) / 2"),),
        (("(start_loss + end_loss) / 2", "start_loss / 2"),),
        (("max(num_targets_2, 1)", "num_targets_2"),),
    ],
)
def test_a_wrong_repair_of_two_counts_is_not_safe(changes: tuple[tuple[str, str], ...]) -> None:
    assert certified(SPANS, *changes).applicability is not Applicability.SAFE


@pytest.mark.parametrize(
    "changes",
    [
        ((FIRST, "max(swapped, 1)"), (SECOND, FIRST), ("max(swapped, 1)", SECOND)),
        ((SECOND, FIRST),),
        (('batch["score"].numel()', 'batch["score"].size(0)'),),
        (('int((batch["tags"] != -100).sum())', 'batch["tags"].numel()'),),
        ((', reduction="sum") / max(num_targets_2, 1)', ")"),),
    ],
)
def test_a_wrong_repair_of_a_dict_of_losses_is_not_safe(changes: tuple[tuple[str, str], ...]) -> None:
    assert certified(DICT, *changes).applicability is not Applicability.SAFE


@pytest.mark.parametrize(
    "changes",
    [
        (("            head_opt.zero_grad()\n", ""),),
        (("            head_opt.zero_grad()\n", "        head_opt.zero_grad()\n"),),
        (("                head_opt.step()\n", "            head_opt.step()\n"),),
        (("                head_opt.step()\n", ""),),
        ((FIRST, "max(num_targets, 1) / accum"),),
        (("int((y != -100).sum())", "y.numel()"),),
        ((" in window)", " in window[:1])"),),
    ],
)
def test_a_wrong_repair_of_two_optimizers_is_not_safe(changes: tuple[tuple[str, str], ...]) -> None:
    assert certified(TWO, *changes).applicability is not Applicability.SAFE


def test_targets_that_are_drawn_like_the_batch_are_counted_as_it_is() -> None:
    assert certified(NOISE, strategy=DEFERRED).applicability is Applicability.SAFE


@pytest.mark.parametrize(
    "changes",
    [
        (("noise.numel()", "noise.size(0)"),),
        (("noise.numel()", "t.numel()"),),
        (("num_targets = 0\n    for", "num_targets = 1\n    for"), ("            num_targets = 0\n", "")),
        ((', reduction="sum"', ""),),
    ],
)
def test_a_wrong_repair_of_drawn_targets_is_not_safe(changes: tuple[tuple[str, str], ...]) -> None:
    assert certified(NOISE, *changes, strategy=DEFERRED).applicability is not Applicability.SAFE


def test_two_draws_that_are_written_alike_are_two() -> None:
    text = NOISE.replace("unet(noisy, t), noise)", "unet(noisy, t) - torch.randn_like(images), noise)")
    found = certified(text, strategy=DEFERRED)
    assert "`torch.randn_like(images)` is drawn in several places" in "; ".join(found.missing)


def test_optimizers_that_step_on_other_microbatches_are_refused() -> None:
    step = "            head_opt.step()\n"
    text = TWO.replace(step, "").replace("            head_opt.zero_grad()\n", "")
    text += "        if (i + 1) % (2 * accum) == 0:\n            head_opt.step()\n            head_opt.zero_grad()\n"
    plan = planned(text)
    assert isinstance(plan, Unrepairable)
    assert plan.reason == "several optimizers take turns in this loop"


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("        loss.backward()", "        log(start_loss)\n        loss.backward()", "`start_loss` is used for"),
        ("        loss.backward()", "        loss.backward()\n        log(loss.item())", "`loss` is used for"),
        ("    for step,", "    print(criterion)\n    for step,", "its criterion is used elsewhere"),
    ],
)
def test_what_is_logged_or_shared_is_refused(old: str, new: str, reason: str) -> None:
    plan = planned(SPANS.replace(old, new))
    assert isinstance(plan, Unrepairable)
    counts, _, why = plan.reason.partition("; no pre-count, as ")
    assert counts.startswith("several loss terms with counts of their own: `int((start != -1).sum())` and ")
    assert reason in why
