"""Engines that keep their gradients (DeepSpeed): the window is collected, counted on all ranks, and divided ahead."""

from __future__ import annotations

import textwrap

import pytest

from accumlint.analysis import Options, check_source, judge_module
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Applicability, Check
from accumlint.repair.confirm import certify_derived
from accumlint.repair.engines import LEFT_BEHIND
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits
from accumlint.source.text import SourceText

HEAD = """\
import deepspeed
import torch
import torch.nn.functional as F


def train(model, loader, args, config):
    engine, _, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)
"""
COLLECT = """\
if len(window) < engine.gradient_accumulation_steps():
    continue
num_targets = sum(int((y != -100).sum()) for {names} in window)
global_targets = torch.tensor(num_targets, device=engine.device)
torch.distributed.all_reduce(global_targets)
global_targets = global_targets.item()
mean_targets = max(global_targets, 1) / (engine.gradient_accumulation_steps() * engine.dp_world_size)
"""
EPOCHS = """\
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(loader):
            if step < args.skipped:
                continue
            # forward
            loss = F.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()  # at the boundary
            # the end
        print(epoch)
"""
EPOCHS_AFTER = f"""\
    window = []
    for epoch in range(args.epochs):
        for step, (x, y) in enumerate(loader):
            if step < args.skipped:
                continue
            window.append((step, (x, y)))
{textwrap.indent(COLLECT.format(names="_, (_, y)"), " " * 12)}\
            microbatches, window = window, []
            for step, (x, y) in microbatches:
                # forward
                loss = F.cross_entropy(engine(x), y, reduction="sum")
                engine.backward(loss / mean_targets)
                engine.step()  # at the boundary
                # the end
        print(epoch)
"""
LOGGED = """\
    for x, y in loader:
        loss = F.cross_entropy(engine(x), y)
        loss = loss / engine.gradient_accumulation_steps()
        print(loss.item() * engine.gradient_accumulation_steps())
        engine.backward(loss)
        engine.step()
"""
UNTIL = """\
    done = 0
    while done < args.total:
        for x, y in loader:
            engine.backward(F.cross_entropy(engine(x), y))
            engine.step()
            done += 1
            if done >= args.total:
                break
"""
UNTIL_AFTER = f"""\
    done = 0
    window = []
    while done < args.total:
        for x, y in loader:
            window.append((x, y))
{textwrap.indent(COLLECT.format(names="_, y"), " " * 12)}\
            microbatches, window = window, []
            for x, y in microbatches:
                engine.backward(F.cross_entropy(engine(x), y, reduction="sum") / mean_targets)
                engine.step()
                done += 1
                if done >= args.total:
                    break
            else:
                continue
            break
"""
FETCHED = """\
    batches = iter(loader)
    for _ in range(args.updates):
        for micro in range(engine.gradient_accumulation_steps()):
            x, y = next(batches)
            loss = F.cross_entropy(engine(x), y)
            engine.backward(loss)
            engine.step()
"""
FETCHED_AFTER = f"""\
    batches = iter(loader)
    for _ in range(args.updates):
        window = [next(batches) for _ in range(engine.gradient_accumulation_steps())]
{textwrap.indent(COLLECT.partition("continue" + chr(10))[2].format(names="_, y"), " " * 8)}\
        for x, y in window:
            loss = F.cross_entropy(engine(x), y, reduction="sum")
            engine.backward(loss / mean_targets)
            engine.step()
"""
MOVED = """\
    for batch in loader:
        batch = to_device(batch, engine.device)
        loss = F.cross_entropy(engine(batch["x"]), batch["y"])
        engine.backward(loss)
        engine.step()
"""


def outcomes(text: str, strategy: str = "auto") -> list[RepairPlan | Unrepairable]:
    module = read_module(text, "train.py")
    return plan_all(module, judge_module(module), strategy)


def repaired(body: str, head: str = HEAD) -> str:
    text = head + body
    plans = [each for each in outcomes(text) if isinstance(each, RepairPlan)]
    assert len(plans) == 1, outcomes(text)
    after = apply_edits(text, plans[0].edits)
    assert not outcomes(after)
    return after.removeprefix(head)


def reasons(text: str, strategy: str = "auto") -> list[str]:
    found = outcomes(text, strategy)
    assert found
    assert all(isinstance(each, Unrepairable) for each in found), found
    return [each.reason for each in found if isinstance(each, Unrepairable)]


@pytest.mark.parametrize(
    ("before", "after"),
    [(EPOCHS, EPOCHS_AFTER), (UNTIL, UNTIL_AFTER), (FETCHED, FETCHED_AFTER)],
    ids=["passes", "left by a break", "a loop over one window"],
)
def test_the_window_is_collected(before: str, after: str) -> None:
    assert repaired(before) == after


def test_a_division_by_hand_goes_and_what_is_logged_stays() -> None:
    after = repaired(LOGGED)
    assert "print(loss.item() * engine.gradient_accumulation_steps())" in after
    assert "engine.backward(loss_sum / mean_targets)" in after
    assert "loss = loss_sum.detach() / max(batch_targets, 1)" in after


def test_a_helper_that_moves_the_batch_is_looked_through() -> None:
    assert 'sum(int((batch["y"] != -100).sum()) for batch in window)' in repaired(MOVED)


@pytest.mark.parametrize("body", [EPOCHS, UNTIL, FETCHED, LOGGED], ids=["passes", "break", "window", "logged"])
def test_it_is_safe(body: str) -> None:
    pytest.importorskip("torch")
    findings = check_source(
        SourceText.from_bytes("train.py", (HEAD + body).encode()), Options(repair=True, confirm=True)
    ).findings
    assert findings
    for finding in findings:
        assert finding.fix is not None, finding.unfixable
        certificate = finding.fix.certificate
        assert certificate.applicability is Applicability.SAFE, certificate.missing
        assert {each.check.value for each in certificate.measures} == {"executed", "executed on ranks", "leaf-checked"}


def test_an_engine_from_outside_leaves_a_rest_at_each_call() -> None:
    head = HEAD.partition("def train")[0] + "def train(engine: deepspeed.DeepSpeedEngine, loader, args):\n"
    text = head + EPOCHS.replace("    for epoch in range(args.epochs):\n", "").replace(
        "        print(epoch)\n", ""
    ).replace("\n    ", "\n").removeprefix("    ")
    found = [each for each in outcomes(text) if isinstance(each, RepairPlan)]
    assert [each.hazard for each in found] == [LEFT_BEHIND]
    inside = [each for each in outcomes(HEAD + EPOCHS) if isinstance(each, RepairPlan)]
    assert [each.hazard for each in inside] == [""]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("engine.backward(loss)", "engine.backward(loss, scale_wrt_gas=args.scaled)", "set by hand"),
        ("config=config)", "config=config, mpu=args.mpu)", "do not all hold batches"),
        ("            # forward\n", "            x = x.float()\n            if not len(x):\n                continue\n",
         "may be skipped"),
        ("            # the end\n", "            if args.stop:\n                break\n", "the next pass goes on"),
        ("(x, y) in enumerate(loader)", "(x, *y) in enumerate(loader)", "in an unusual way"),
        ("enumerate(loader):", "tokens(loader):", ""),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_refused(old: str, new: str, said: str) -> None:
    text = HEAD + EPOCHS
    assert old in text
    text = text.replace(old, new)
    if "tokens" in new:  # any iterable is collected
        assert any(isinstance(each, RepairPlan) for each in outcomes(text))
    else:
        assert any(said in reason for reason in reasons(text)), reasons(text)


def test_the_gradient_is_never_divided_behind_the_engine() -> None:
    assert all("keeps the gradients in its engine" in reason for reason in reasons(HEAD + EPOCHS, "deferred"))


WRONG = {
    "world size missing": (" * engine.dp_world_size)", ")"),
    "the engine's division left": ("(engine.gradient_accumulation_steps() * ", "("),
    "local count": ("            torch.distributed.all_reduce(global_targets)\n", ""),
    "window kept": ("microbatches, window = window, []", "microbatches = window"),
    "window too long": ("if len(window) < ", "if len(window) <= "),
    "count of one microbatch": ("in window)", "in window[-1:])"),
    "mean left": (', reduction="sum"', ""),
    "undone after the division": ("loss / mean_targets", "loss / mean_targets / engine.gradient_accumulation_steps()"),
    "window of a pass": ("    window = []\n    for epoch in range(args.epochs):\n",
                         "    for epoch in range(args.epochs):\n        window = []\n"),
}  # fmt: skip
"""Wrong repairs of an engine's loop; the last gives windows of its own beside the engine's."""


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_repair_is_not_proved(kind: str) -> None:
    old, new = WRONG[kind]
    assert old in EPOCHS_AFTER
    wrong = HEAD + EPOCHS_AFTER.replace(old, new)
    certificate = certify_derived(HEAD + EPOCHS, wrong, "train.py", confirm=False)
    if kind == "window of a pass":  # what is left of a pass is never run: right windows, as a shorter pass has them
        assert certificate.applicability is not Applicability.SAFE
    else:
        assert Check.PROVED not in certificate.discharged


def test_the_right_repair_is_proved() -> None:
    certificate = certify_derived(HEAD + EPOCHS, HEAD + EPOCHS_AFTER, "train.py", confirm=False)
    assert Check.PROVED in certificate.discharged, certificate.missing
