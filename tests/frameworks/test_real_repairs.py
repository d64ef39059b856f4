"""Repairs of classes that the Trainer drives, under the real Trainer: off before, the full-batch update after."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra `frameworks` is not installed")
pytest.importorskip("accelerate", reason="the extra `frameworks` is not installed")

import torch
import transformers
from torch.nn import functional

import accumlint
from accumlint.harness import accumcheck, trainer_loop

pytestmark = pytest.mark.frameworks
K = 4
TINY = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}
HEAD = """\
import torch
from torch.nn import functional as F
from transformers import BertModel, BertPreTrainedModel
from transformers.modeling_outputs import TokenClassifierOutput


class BertForTagging(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.tags = torch.nn.Linear(config.hidden_size, config.num_labels)
        self.post_init()

    def forward(self, input_ids=None, labels=None, **kwargs):
        logits = self.tags(self.bert(input_ids).last_hidden_state)
        loss = None
        if labels is not None:
            loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten())
        return TokenClassifierOutput(loss=loss, logits=logits)
"""
TRAINER = """\
from torch.nn import functional as F
from transformers import Trainer


class TokenTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        labels = inputs["labels"]
        outputs = model(input_ids=inputs["input_ids"])
        loss = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())
        return (loss, outputs) if return_outputs else loss
"""


def run(text: str) -> dict[str, Any]:
    space: dict[str, Any] = {"__name__": "repaired"}
    exec(compile(text, "repaired.py", "exec", dont_inherit=True), space)
    return space


def repaired(text: str, code: str) -> str:
    assert [finding.code for finding in accumlint.check_source(text).findings] == [code]
    done = accumlint.repair_source(text, unsafe=True)
    assert done.changed
    return done.source


def microbatches() -> list[dict[str, torch.Tensor]]:
    generator = torch.Generator().manual_seed(0)
    found = []
    for valid in (3, 9, 1, 5, 2, 12, 1, 4):
        ids = torch.randint(5, 40, (2, 8), generator=generator)
        labels = torch.full_like(ids, -100)
        labels.view(-1)[:valid] = torch.randint(0, 3, (valid,), generator=generator)
        found.append({"input_ids": ids, "labels": labels})
    return found


def loss_sum(model: Any, mb: dict[str, torch.Tensor]) -> torch.Tensor:
    logits = model(input_ids=mb["input_ids"]).logits
    return functional.cross_entropy(logits.flatten(0, 1), mb["labels"].flatten(), reduction="sum")


def report(train: Any, model_class: Any) -> Any:
    torch.manual_seed(0)
    model = model_class(transformers.BertConfig(**TINY, num_labels=3, max_position_embeddings=16))
    return accumcheck(
        train, model, microbatches(), loss_sum=loss_sum,
        count=lambda mb: int((mb["labels"] != -100).sum()), accumulation_steps=K,
    )  # fmt: skip


def test_a_head_that_swallowed_the_count() -> None:
    before, after = run(HEAD)["BertForTagging"], run(repaired(HEAD, "ACC108"))["BertForTagging"]
    assert not report(trainer_loop(gradient_accumulation_steps=K), before).equivalent
    found = report(trainer_loop(gradient_accumulation_steps=K), after)
    assert found.equivalent, str(found)


def test_a_trainer_that_ignored_the_count() -> None:
    before, after = run(TRAINER)["TokenTrainer"], run(repaired(TRAINER, "ACC105"))["TokenTrainer"]
    model = transformers.BertForTokenClassification
    assert not report(trainer_loop(before, gradient_accumulation_steps=K), model).equivalent
    found = report(trainer_loop(after, gradient_accumulation_steps=K), model)
    assert found.equivalent, str(found)
