"""The Hugging Face Trainer itself: right for a model that uses `num_items_in_batch`, K times too large for others."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra `frameworks` is not installed")
pytest.importorskip("accelerate", reason="the extra `frameworks` is not installed")

import torch
import transformers
from torch.nn import functional

from accumlint.harness import FaultKind, accumcheck, trainer_loop

pytestmark = pytest.mark.frameworks
K = 4
IGNORED = -100
TINY = {"vocab_size": 40, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 16}


def bert():
    torch.manual_seed(0)
    config = transformers.BertConfig(**TINY, num_labels=3, max_position_embeddings=16)
    return transformers.BertForSequenceClassification(config)


def rows(*sizes: int):
    """Microbatches of so many rows, each with a label."""
    generator = torch.Generator().manual_seed(0)
    for n in sizes:
        ids = torch.randint(5, 40, (n, 6), generator=generator)
        labels = torch.randint(0, 3, (n,), generator=generator)
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def bert_loss(model, mb):
    logits = model(input_ids=mb["input_ids"], attention_mask=mb["attention_mask"]).logits
    return functional.cross_entropy(logits, mb["labels"], reduction="sum")


def check_bert(train, *sizes: int):
    return accumcheck(
        train, bert(), list(rows(*sizes)), loss_sum=bert_loss, count=lambda mb: len(mb["labels"]), accumulation_steps=K
    )


def test_bert_gets_four_times_the_gradient() -> None:
    """Its forward swallows `num_items_in_batch` as a keyword, so nothing divides by K (transformers 5.24.0)."""
    report = check_bert(trainer_loop(gradient_accumulation_steps=K), 3, 3, 3, 3, 2, 5, 1, 4, 6, 2)
    assert not report.equivalent
    assert report.windows[0].ratio == pytest.approx(4.0, rel=1e-6)
    assert report.windows[0].weights == pytest.approx((1, 1, 1, 1), rel=1e-6)
    assert report.windows[1].weights == pytest.approx((1, 1, 1, 1), rel=1e-6)
    assert {fault.kind for fault in report.faults} == {FaultKind.MEANS_SUMMED}
    assert "gradient 4 times too large" in str(report)


def test_bert_with_the_switch_has_an_equal_mean() -> None:
    """`model_accepts_loss_kwargs = False` brings the division back, not the weights."""

    class Divides(transformers.Trainer):
        def __init__(self, *args, **kwargs) -> None:
            super().__init__(*args, **kwargs)
            self.model_accepts_loss_kwargs = False

    report = check_bert(trainer_loop(Divides, gradient_accumulation_steps=K), 3, 3, 3, 3, 2, 5, 1, 4)
    assert report.windows[0].ratio == pytest.approx(1.0, rel=1e-6)
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT}


def test_llama_agrees() -> None:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(**TINY, num_key_value_heads=2, max_position_embeddings=16)
    generator = torch.Generator().manual_seed(0)
    data = []
    for n in (3, 9, 0, 5, 2, 12, 1, 4, 6, 2):  # an empty microbatch, and a partial window of two
        ids = torch.randint(5, 40, (2, 8), generator=generator)
        labels = torch.full_like(ids, IGNORED)
        places = [(row, column) for row in range(2) for column in range(1, 8)]
        for row, column in places[:n]:
            labels[row, column] = ids[row, column]
        data.append({"input_ids": ids, "labels": labels})

    def loss_sum(model, mb):
        logits = model(input_ids=mb["input_ids"]).logits[:, :-1]
        return functional.cross_entropy(logits.flatten(0, 1), mb["labels"][:, 1:].flatten(), reduction="sum")

    report = accumcheck(
        trainer_loop(gradient_accumulation_steps=K), transformers.LlamaForCausalLM(config), data, loss_sum=loss_sum,
        count=lambda mb: int((mb["labels"][:, 1:] != IGNORED).sum()),
    )  # fmt: skip
    assert report.equivalent, str(report)
    assert (report.steps, report.clips, report.accumulation_steps) == (3, 3, K)
    assert report.error < 1e-6
    assert report.tolerance == 1e-5
    assert any("casts to float32 inside" in text for text in report.assumptions)
    assert report.control_error > 0.1
