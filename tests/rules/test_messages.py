"""Messages hold the right numbers, and stay true and well formed when fields are missing."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import pytest

from accumlint.contract.verdict import Clause, Evidence, Violation
from accumlint.rules.base import Rule
from accumlint.rules.registry import all_rules, get_rule

TWO_AND_FIVE = (Fraction(2), Fraction(5))


def violation(rule: Rule, **fields: Any) -> Violation:
    return Violation(rule.clause or Clause.TARGET_WEIGHT, 0, **fields)


# (code, the violation's fields, the whole message), written by hand
WORDED = [
    (
        "ACC101",
        {"counts": TWO_AND_FIVE, "divisor": "args.accum", "evidence": (Evidence("labels are padded with -100"),)},
        "microbatch means over varying counts get equal weight (each is divided by args.accum): e.g. with 2 and 5 "
        "valid targets, each target of the first weighs 2.5x one of the second; counts differ because labels are "
        "padded with -100; weight by valid targets",
    ),
    (
        "ACC101",
        {"counts": (Fraction(6), Fraction(0), Fraction(4), Fraction(1)), "divisor": "4"},
        "microbatch means over varying counts get equal weight (each is divided by 4): e.g. with 1 and 6 valid "
        "targets, each target of the first weighs 6x one of the second; weight by valid targets",
    ),
    (
        "ACC101",
        {"counts": TWO_AND_FIVE, "weights": (Fraction(1, 2), Fraction(1, 4)), "steps": 3},
        "microbatch means over varying counts of valid targets get equal weight: e.g. with 2 and 5 valid targets, "
        "each target of the first weighs 5x one of the second; weight by valid targets",
    ),
    (
        "ACC102",
        {"counts": (Fraction(8), Fraction(8), Fraction(1)), "divisor": "self.accum"},
        "a short last batch weighs as much as a full one (each mean is divided by self.accum): e.g. with batches of "
        "1 and 8, each target of the first weighs 8x one of the second; weight by batch size or drop the short batch",
    ),
    (
        "ACC103",
        {"divisor": "4", "steps": 4},
        "the gradients of 4 microbatches are summed without division: the update is 4x the mean",
    ),
    (
        "ACC103",
        {"divisor": "args.accum", "steps": 3},
        "the gradients of args.accum microbatches are summed without division: the update is args.accum times the "
        "mean (e.g. 3x)",
    ),
    (
        "ACC103",
        {"window": 3},
        "the gradients of the window's microbatches are summed without division: the update grows with their number "
        "(e.g. 3x)",
    ),
    (
        "ACC103",
        {},
        "the gradients of the window's microbatches are summed without division: the update grows with their number",
    ),
    (
        "ACC104",
        {"divisor": "4", "detail": "framework", "actual": Fraction(1, 16), "expected": Fraction(1, 4)},
        "divided by 4 here and once more by the framework: the update is 1/4 of what it should be; divide once",
    ),
    (
        "ACC104",
        {"divisor": "cfg.accum", "detail": "by hand", "actual": Fraction(1, 9), "expected": Fraction(1, 3)},
        "divided by cfg.accum here and once more by hand: the update is cfg.accum times too small (e.g. 1/3 of what "
        "it should be); divide once",
    ),
    (
        "ACC104",
        {},
        "divided by the number of steps here and once more: the update is too small by that factor; divide once",
    ),
    (
        "ACC105",
        {"detail": "unused", "steps": 4},
        "compute_loss takes num_items_in_batch and never uses it: its mean over tokens gets equal weight in every "
        "microbatch, or is divided nowhere if the model takes loss arguments (then about 4x too large); divide the "
        "summed loss by num_items_in_batch",
    ),
    (
        "ACC106",
        {"actual": Fraction(1, 14), "expected": Fraction(1, 7)},
        "divided by the count of all ranks although gradients are averaged over the ranks: the update is "
        "1/world_size of what it should be (e.g. 1/2); multiply by the world size",
    ),
    (
        "ACC106",
        {"detail": "local"},
        "a rank's own count is used as if it were the count of all ranks: every rank weighs the same, whatever its "
        "valid targets; all-reduce the count",
    ),
    (
        "ACC107",
        {"window": 1, "steps": 3, "divisor": "3"},
        "a short last window of 1 microbatch is divided by 3: its update is 1/3 of what it should be",
    ),
    (
        "ACC107",
        {"window": 2, "steps": 3, "divisor": "accum"},
        "a short last window is divided by the full accum: e.g. with 2 microbatches of 3, its update is 2/3 of what "
        "it should be",
    ),
    ("ACC107", {}, "a short last window is divided by the full number of steps: its update is too small"),
    (
        "ACC108",
        {"steps": 4},
        "forward swallows num_items_in_batch in its **kwargs and returns a mean: the Trainer divides nowhere and the "
        "gradient is 4x too large with 4 accumulation steps; pass the kwargs to the loss or set accepts_loss_kwargs "
        "= False",
    ),
    (
        "ACC201",
        {"subject": "torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)", "times": 4, "divisor": "4"},
        "torch.nn.utils.clip_grad_norm_ runs 4 times in a window of 4 microbatches: it clips partial sums and so "
        "changes the direction of the update; clip once, before the step",
    ),
    (
        "ACC201",
        {"times": 3, "window": 3},
        "the clip runs before the window is complete: it clips partial sums and so changes the direction of the "
        "update; clip once, before the step",
    ),
    (
        "ACC202",
        {"subject": "clip_grad_norm_(params)", "actual": Fraction(65536), "expected": Fraction(1)},
        "clip_grad_norm_ sees gradients that are still multiplied by the loss scale (e.g. 65536): its limit acts as "
        "limit / scale; call scaler.unscale_(optimizer) first",
    ),
    (
        "ACC301",
        {"subject": "optimizer.step()", "times": 3, "window": 3, "steps": 3, "divisor": "3"},
        "optimizer.step runs 3 times in a window of 3 microbatches: partial sums are applied again and again; step "
        "once, at the boundary",
    ),
    (
        "ACC301",
        {"subject": "optimizer.step()", "times": 3, "steps": 3, "divisor": "self.accum"},
        "optimizer.step runs on every microbatch, self.accum times per window: partial sums are applied again and "
        "again; step once, at the boundary",
    ),
    (
        "ACC302",
        {"subject": "opt.zero_grad()", "lost": 2, "window": 3, "divisor": "args.accum"},
        "opt.zero_grad clears the gradients inside a window: with args.accum = 3, 2 of 3 microbatches never reach the "
        "update; clear after the step",
    ),
    (
        "ACC302",
        {"subject": "opt.zero_grad()", "lost": 3, "window": 4, "divisor": "4"},
        "opt.zero_grad clears the gradients inside a window: 3 of 4 microbatches never reach the update; clear after "
        "the step",
    ),
    (
        "ACC303",
        {"subject": "scaler.step(optimizer)", "lost": 3, "divisor": "args.accum"},
        "nothing clears the gradients after scaler.step: every window of args.accum microbatches also applies all "
        "earlier ones; call zero_grad() after the step",
    ),
    (
        "ACC304",
        {"detail": "leaked", "lost": 1, "steps": 3},
        "the last partial window (e.g. 1 microbatch of 3) neither steps nor is cleared: its gradient leaks into the "
        "next epoch's first window; step once more after the loop",
    ),
    (
        "ACC304",
        {"detail": "cleared"},
        "the last partial window never steps: its gradient is cleared and lost; step once more after the loop",
    ),
    (
        "ACC305",
        {"window": 1, "steps": 4, "divisor": "4"},
        "the boundary fires on the wrong microbatch: the first window has 1 microbatch instead of 4; count from 1 in "
        "the test",
    ),
    (
        "ACC305",
        {"window": 1, "steps": 3, "divisor": "K"},
        "the boundary fires on the wrong microbatch: the first window has 1 microbatch instead of K; count from 1 in "
        "the test",
    ),
    (
        "ACC305",
        {"window": 2, "steps": 3, "divisor": "K"},
        "the boundary fires on the wrong microbatch: e.g. the first window has 2 microbatches instead of 3 for K; "
        "count from 1 in the test",
    ),
    (
        "ACC306",
        {"subject": "scheduler.step()", "times": 3, "divisor": "4"},
        "scheduler.step runs 4 times per optimizer step: the schedule ends 4 times too early; step it after the "
        "optimizer",
    ),
    (
        "ACC307",
        {"subject": "scaler.update()", "times": 3, "divisor": "3"},
        "scaler.update runs 3 times in a window of 3 microbatches: its microbatches carry different loss scales; call "
        "it once, at the boundary",
    ),
    (
        "ACC308",
        {"subject": "model.require_backward_grad_sync"},
        "model.require_backward_grad_sync synchronises another microbatch than the last one before the step: what the "
        "ranks accumulate after it is not exchanged; synchronise on the boundary's microbatch",
    ),
    (
        "ACC402",
        {"detail": "in-batch negatives"},
        "in-batch negatives couple the examples of a microbatch: the sum over the window is another objective than the "
        "full batch's, whatever the weights",
    ),
    (
        "ACC403",
        {"divisor": "32"},
        "the logged loss is already divided by 32: 1/32 of the microbatch's loss; log the loss before the division",
    ),
    (
        "ACC404",
        {"divisor": "accum"},
        "microbatch means get equal weight (each is divided by accum): right only if every microbatch has the same "
        "number of valid targets, which nothing here shows",
    ),
    (
        "ACC901",
        {"detail": "ACC101, ACC304"},
        "unused suppression: ACC101, ACC304 are not found on this line; remove from the noqa",
    ),
]


@pytest.mark.parametrize(("code", "fields", "wanted"), WORDED)
def test_the_whole_message(code: str, fields: dict[str, Any], wanted: str) -> None:
    rule = get_rule(code)
    assert rule.message(violation(rule, **fields)) == wanted


CHOICES: dict[str, tuple[Any, ...]] = {
    "subject": ("", "optimizer.step(\n    closure\n)"),
    "share": (None, (Fraction(1, 12), Fraction(1, 4)), (Fraction(4), Fraction(1)), (Fraction(0), Fraction(0))),
    "counts": ((), (Fraction(0), Fraction(0)), TWO_AND_FIVE, (Fraction(3), Fraction(3))),
    "window": (0, 1, 3),
    "steps": (None, 3),
    "divisor": ("", "4", "args.accum"),
    "times": (0, 3),
    "lost": (0, 2),
    "evidence": ((), (Evidence(""),), (Evidence("the labels hold -100"),)),
}
DETAILS = ("", "missing", "local", "framework", "by hand", "leaked", "cleared", "something new")


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_absence_is_handled(rule: Rule) -> None:
    for number, values in enumerate(itertools.product(*CHOICES.values())):
        fields = dict(zip(CHOICES, values, strict=True))
        pair = fields.pop("share")
        if pair:
            fields["actual"], fields["expected"] = pair
        made = violation(rule, detail=DETAILS[number % len(DETAILS)], **fields)
        for text in (rule.message(made), rule.hint(made)):
            assert text, made
            assert text == text.strip(), made
            assert "\n" not in text, made
            assert not text.endswith("."), made
            assert "None" not in text, made
            assert "  " not in text, made
            assert " 0 " not in text, made
            assert "1 microbatches" not in text, made
            assert "Fraction" not in text, made


@pytest.mark.parametrize("divisor", ["args.accum", ""])
def test_a_sampled_number_of_steps_is_never_told_as_a_fact(divisor: str) -> None:
    """The engine runs `args.accum` as 3: a figure that follows from it stands behind "e.g." or "with args.accum = "."""
    sampled = {"divisor": divisor, "steps": 3, "window": 3, "times": 3, "lost": 2, "counts": TWO_AND_FIVE}
    configured = {"ACC105", "ACC108"}  # their `steps` is what the file sets
    for rule in all_rules():
        text = rule.message(violation(rule, **sampled))
        if any(figure in text for figure in "23") and rule.code not in configured:
            assert "e.g." in text or "with args.accum = 3" in text, text
