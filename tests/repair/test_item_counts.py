"""Classes that ignore num_items_in_batch: what is written, that it computes the full-batch mean, what is only shown."""

from __future__ import annotations

import textwrap
from types import SimpleNamespace
from typing import Any

import pytest

import accumlint
from accumlint import Applicability
from accumlint.repair.rewrite import apply_edits

TRAINER = """\
import torch.nn.functional as F
from torch.nn import CrossEntropyLoss
from transformers import AutoModelForCausalLM, Trainer


class Plain(Trainer):
    def compute_loss({signature}):
        labels = inputs["labels"]
        logits = model(inputs["input_ids"])
{loss}
        return (loss, logits) if return_outputs else loss
"""
HEAD = """\
from torch import nn
from transformers import PreTrainedModel


class TinyForTokenClassification(PreTrainedModel):
    \"\"\"A head.\"\"\"

    def forward(self, input_ids=None, labels=None, **kwargs):
        logits = self.classifier(input_ids)
        loss = None
        if labels is not None:
{loss}
        return {{"loss": loss, "logits": logits}}
"""
MISSING = "self, model, inputs, return_outputs=False"
PLAIN = "loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())  # of tokens"
CRITERION = "criterion = CrossEntropyLoss()\nloss = criterion(logits.flatten(0, 1), labels.flatten())"
COUNTED = "loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())"
STUB = "class Trainer:\n    pass\n\nclass PreTrainedModel:\n    pass\n\nAutoModelForCausalLM = None\n"


def repair(text: str, code: str) -> tuple[str, accumlint.Finding]:
    (finding,) = (f for f in accumlint.check_source(text, repairs=True).findings if f.code == code)
    return (apply_edits(text, finding.fix.edits) if finding.fix is not None else text), finding


def trainer(signature: str = MISSING, loss: str = PLAIN) -> str:
    return TRAINER.format(signature=signature, loss=textwrap.indent(loss, " " * 8))


def head(loss: str = COUNTED) -> str:
    return HEAD.format(loss=textwrap.indent(loss, " " * 12))


def run(text: str) -> dict[str, Any]:
    lines = [line for line in text.splitlines() if not line.startswith("from transformers")]
    space: dict[str, Any] = {}
    exec(STUB + "\n".join(lines), space)
    return space


def batches() -> list[dict[str, Any]]:
    torch = pytest.importorskip("torch")
    g = torch.Generator().manual_seed(0)
    found = []
    for valid in (1, 6, 3):
        labels = torch.full((2, 4), -100)
        labels.view(-1)[:valid] = torch.randint(0, 5, (valid,), generator=g)
        found.append({"input_ids": torch.randn(2, 4, 5, generator=g, dtype=torch.float64), "labels": labels})
    return found


def full_mean(parts: list[dict[str, Any]]) -> Any:
    import torch
    from torch.nn.functional import cross_entropy

    logits = torch.cat([part["input_ids"] for part in parts]).flatten(0, 1)
    return cross_entropy(logits, torch.cat([part["labels"] for part in parts]).flatten())


@pytest.mark.parametrize("loss", [PLAIN, CRITERION])
@pytest.mark.parametrize(
    "signature",
    [MISSING, f"{MISSING}, **kwargs", f"{MISSING}, num_items_in_batch=None", "self, model, inputs, return_outputs"],
)
def test_a_trainers_loss_is_divided_by_the_count(signature: str, loss: str) -> None:
    torch = pytest.importorskip("torch")
    new, finding = repair(trainer(signature, loss), "ACC105")
    assert finding.fix is not None, finding.unfixable
    assert finding.fix.certificate.applicability is Applicability.UNSAFE
    assert new.count("num_items_in_batch=None") == 1
    assert ("# of tokens" in new) is (loss is PLAIN)
    made = run(new)["Plain"]()
    made.args = SimpleNamespace(average_tokens_across_devices=True)
    made.accelerator = SimpleNamespace(num_processes=1)
    parts = batches()
    total = sum(int((part["labels"] != -100).sum()) for part in parts)
    counted = {"num_items_in_batch": torch.tensor(total)}
    summed = sum(made.compute_loss(lambda x: x, part, False, **counted) for part in parts)
    torch.testing.assert_close(summed, full_mean(parts))
    alone = made.compute_loss(lambda x: x, parts[1], False)
    torch.testing.assert_close(alone, full_mean(parts[1:2]))


@pytest.mark.parametrize("loss", [COUNTED, CRITERION.replace("Cross", "nn.Cross")])
def test_a_head_divides_by_the_count_of_its_keywords(loss: str) -> None:
    torch = pytest.importorskip("torch")
    new, finding = repair(head(loss), "ACC108")
    assert finding.fix is not None, finding.unfixable
    assert finding.fix.certificate.applicability is Applicability.UNSAFE
    made = run(new)["TinyForTokenClassification"]()
    made.classifier = lambda x: x
    parts = batches()
    total = sum(int((part["labels"] != -100).sum()) for part in parts)
    summed = sum(made.forward(**part, num_items_in_batch=total)["loss"] for part in parts)
    torch.testing.assert_close(summed, full_mean(parts))
    torch.testing.assert_close(made.forward(**parts[0])["loss"], full_mean(parts[:1]))


def test_another_loss_of_a_head_is_a_suggestion_that_is_never_applied() -> None:
    text = head("loss = nn.functional.mse_loss(logits, labels.float())")
    new, finding = repair(text, "ACC108")
    assert finding.fix is not None
    assert finding.fix.certificate.applicability is Applicability.DISPLAY
    assert '    """A head."""\n\n    accepts_loss_kwargs = False\n\n    def forward' in new
    assert not accumlint.repair_source(text, unsafe=True).changed
    assert not [f for f in accumlint.check_source(new).findings if f.code == "ACC108"]


@pytest.mark.parametrize(
    ("loss", "reason"),
    [
        ("loss = 0.5 * F.cross_entropy(logits.flatten(0, 1), labels.flatten())", "part of a larger expression"),
        (
            "loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())\n"
            "loss = loss + F.cross_entropy(logits.flatten(0, 1), labels.flatten())",
            "not one plain cross-entropy",
        ),
    ],
)
def test_what_is_not_plain_is_refused(loss: str, reason: str) -> None:
    new, finding = repair(trainer(loss=loss), "ACC105")
    assert finding.fix is None
    assert reason in (finding.unfixable or "")
    assert new == trainer(loss=loss)


def test_it_is_applied_on_request_only_and_comes_to_an_end() -> None:
    for text in (trainer(), head()):
        assert not accumlint.repair_source(text).changed
        assert not accumlint.repair_source(text, require="proved").changed
        done = accumlint.repair_source(text, unsafe=True)
        assert done.changed
        assert not done.result.findings


def test_class_weights_are_no_count_of_items() -> None:
    """Their sum is the divisor of the mean, and no count of labels gives it."""
    loss = "loss = CrossEntropyLoss(weight=self.w)(logits.flatten(0, 1), labels.flatten())"
    _, finding = repair(trainer(loss=loss), "ACC105")
    assert finding.fix is None
