"""Methods that Lightning drives: the count of a window is kept on the module, the gradient divided once."""

from __future__ import annotations

import pytest

from accumlint.analysis import Options, check_source, judge_module
from accumlint.reading.read import read_module
from accumlint.repair.certificate import Applicability, Check
from accumlint.repair.confirm import certify_derived
from accumlint.repair.driven import RAW_SUMS
from accumlint.repair.plan import RepairPlan, Unrepairable, plan_all
from accumlint.repair.rewrite import apply_edits
from accumlint.source.text import SourceText

HEAD = """\
import lightning as L
import torch
import torch.nn.functional as F


class Tagger(L.LightningModule):
"""
MANUAL = """\
    def __init__(self, net, steps):
        super().__init__()
        self.automatic_optimization = False
        self.net, self.steps = net, steps

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        loss = F.cross_entropy(self.net(x), y, ignore_index=-100)
        self.manual_backward(loss / self.steps)
        if (batch_idx + 1) % self.steps == 0:
            self.clip_gradients(optimizer, gradient_clip_val=1.0)
            optimizer.step()
            optimizer.zero_grad()
"""
MANUAL_AFTER = """\
    def __init__(self, net, steps):
        super().__init__()
        self.automatic_optimization = False
        self.net, self.steps = net, steps
        self.num_targets = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        optimizer = self.optimizers()
        self.num_targets += int((y != -100).sum())
        loss = F.cross_entropy(self.net(x), y, ignore_index=-100, reduction="sum")
        self.manual_backward(loss)
        if (batch_idx + 1) % self.steps == 0 or self.trainer.is_last_batch:
            global_targets = self.all_gather(torch.tensor(self.num_targets, device=self.device)).sum().item()
            grad_scale = self.trainer.world_size / max(global_targets, 1)
            for param_group in optimizer.param_groups:
                for param in param_group["params"]:
                    if param.grad is not None:
                        param.grad.mul_(grad_scale)
            self.clip_gradients(optimizer, gradient_clip_val=1.0)
            optimizer.step()
            optimizer.zero_grad()
            self.num_targets = 0
"""
AUTOMATIC = """\
    \"\"\"No constructor of its own.\"\"\"

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return {"loss": loss}


trainer = L.Trainer(accumulate_grad_batches=8, gradient_clip_val=1.0)
"""
AUTOMATIC_AFTER = """\
    \"\"\"No constructor of its own.\"\"\"

    num_targets = 0

    def training_step(self, batch, batch_idx):
        x, y = batch
        batch_targets = int((y != -100).sum())
        self.num_targets += batch_targets
        loss_sum = F.cross_entropy(self(x), y, reduction="sum")
        loss = loss_sum.detach() / max(batch_targets, 1)
        self.log("train_loss", loss)
        return {"loss": loss_sum}

    def on_before_optimizer_step(self, optimizer):
        global_targets = self.all_gather(torch.tensor(self.num_targets, device=self.device)).sum().item()
        grad_scale = self.trainer.world_size * self.trainer.accumulate_grad_batches / max(global_targets, 1)
        for param_group in optimizer.param_groups:
            for param in param_group["params"]:
                if param.grad is not None:
                    param.grad.mul_(grad_scale)
        self.num_targets = 0


trainer = L.Trainer(accumulate_grad_batches=8, gradient_clip_val=1.0)
"""
BOTH = [(MANUAL, MANUAL_AFTER), (AUTOMATIC, AUTOMATIC_AFTER)]


def outcomes(text: str, strategy: str = "auto") -> list[RepairPlan | Unrepairable]:
    module = read_module(text, "train.py")
    return plan_all(module, judge_module(module), strategy)


@pytest.mark.parametrize(("before", "after"), BOTH, ids=["manual", "automatic"])
def test_the_count_is_kept_on_the_module(before: str, after: str) -> None:
    plans = [each for each in outcomes(HEAD + before) if isinstance(each, RepairPlan)]
    assert len(plans) == 1, outcomes(HEAD + before)
    assert apply_edits(HEAD + before, plans[0].edits) == HEAD + after
    assert RAW_SUMS in plans[0].notes
    assert not outcomes(HEAD + after)


@pytest.mark.parametrize("text", [MANUAL, AUTOMATIC], ids=["manual", "automatic"])
def test_it_is_safe(text: str) -> None:
    pytest.importorskip("torch")
    findings = check_source(SourceText.from_bytes("t.py", (HEAD + text).encode()), Options(repair=True, confirm=True))
    assert findings.findings
    for finding in findings.findings:
        assert finding.fix is not None, finding.unfixable
        certificate = finding.fix.certificate
        assert certificate.applicability is Applicability.SAFE, certificate.missing
        assert {each.check.value for each in certificate.measures} == {"executed", "executed on ranks", "leaf-checked"}


def test_fp16_is_not_repaired_unseen() -> None:
    text = HEAD + AUTOMATIC.replace("gradient_clip_val=1.0", 'precision="16-mixed"')
    assert [each.hazard for each in outcomes(text) if isinstance(each, RepairPlan)] == [RAW_SUMS]


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("    def training_step", "    def on_before_optimizer_step(self, optimizer):\n        print(1)\n\n"
         "    def training_step", "hooks of its own"),
        ("gradient_clip_val=1.0", 'strategy="deepspeed_stage_2"', "keeps the gradients to itself"),
        ('{"loss": loss}', '{"total": loss}', ""),
    ],
)  # fmt: skip
def test_what_is_not_plain_is_refused(old: str, new: str, said: str) -> None:
    text = (HEAD + AUTOMATIC).replace(old, new)
    found = outcomes(text)
    assert not any(isinstance(each, RepairPlan) for each in found)
    assert not said or any(said in each.reason for each in found if isinstance(each, Unrepairable)), found


def test_a_window_of_a_framework_is_not_collected() -> None:
    found = outcomes(HEAD + MANUAL, "precount")
    assert any("one batch at a time" in each.reason for each in found if isinstance(each, Unrepairable))


WRONG = {
    "world size missing": ("self.trainer.world_size * ", ""),
    "Lightning's division left": (" * self.trainer.accumulate_grad_batches", ""),
    "local count": (
        "self.all_gather(torch.tensor(self.num_targets, device=self.device)).sum().item()",
        "self.num_targets",
    ),
    "count not reset": ("        self.num_targets = 0\n\n\ntrainer", "\n\ntrainer"),
    "last count": ("self.num_targets += batch_targets", "self.num_targets = batch_targets"),
    "hook of each microbatch": ("on_before_optimizer_step", "on_after_backward"),
    "hook before the backward": ("on_before_optimizer_step(self, optimizer)", "on_before_backward(self, optimizer)"),
}


@pytest.mark.parametrize("kind", WRONG)
def test_a_wrong_repair_is_not_proved(kind: str) -> None:
    old, new = WRONG[kind]
    assert old in AUTOMATIC_AFTER
    wrong = HEAD + AUTOMATIC_AFTER.replace(old, new)
    certificate = certify_derived(HEAD + AUTOMATIC, wrong, "train.py", confirm=False)
    assert Check.PROVED not in certificate.discharged


@pytest.mark.parametrize(("before", "after"), BOTH, ids=["manual", "automatic"])
def test_the_right_repair_is_proved(before: str, after: str) -> None:
    certificate = certify_derived(HEAD + before, HEAD + after, "train.py", confirm=False)
    assert Check.PROVED in certificate.discharged, certificate.missing


def test_a_schedule_of_the_module_moves_with_the_only_optimizer() -> None:
    body = MANUAL.replace(
        "            optimizer.step()\n", "            optimizer.step()\n            self.lr_schedulers().step()\n"
    )
    after = MANUAL_AFTER.replace(
        "            optimizer.step()\n", "            optimizer.step()\n            self.lr_schedulers().step()\n"
    )
    certificate = certify_derived(HEAD + body, HEAD + after, "train.py", confirm=False)
    assert Check.PROVED in certificate.discharged, certificate.missing


def test_gradients_cleared_for_every_microbatch_are_cleared_at_the_boundary() -> None:
    body = MANUAL.replace("            optimizer.zero_grad()\n", "").replace(
        "        loss = F", "        optimizer.zero_grad()\n        loss = F"
    )
    (plan,) = [each for each in outcomes(HEAD + body) if isinstance(each, RepairPlan)]
    after = apply_edits(HEAD + body, plan.edits)
    assert after.count("optimizer.zero_grad()") == 1
    assert not outcomes(after)


def test_bf16_does_not_overflow() -> None:
    text = HEAD + AUTOMATIC.replace("gradient_clip_val=1.0", 'precision="bf16-mixed"')
    assert [each.hazard for each in outcomes(text) if isinstance(each, RepairPlan)] == [""]
