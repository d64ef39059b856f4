"""The loss contracts of transformers' heads, held against the classes themselves: is the loss a mean over that count?

Asked as the leaf check asks: on D1, D2 and D1+D2, L12 * (n1 + n2) == L1 * n1 + L2 * n2, in value and gradient.
"""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers", reason="the extra `frameworks` is not installed")

import torch
import transformers

from accumlint.apis.contracts import head_contract

pytestmark = pytest.mark.frameworks
SMALL = {"vocab_size": 20, "max_position_embeddings": 16}
BERT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, **SMALL}
BART = {"d_model": 8, "encoder_layers": 1, "decoder_layers": 1, "encoder_attention_heads": 2, **SMALL}
BART |= {"decoder_attention_heads": 2, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
T5 = {
    "vocab_size": 20,
    "d_model": 8,
    "d_kv": 4,
    "d_ff": 8,
    "num_layers": 1,
    "num_heads": 2,
    "decoder_start_token_id": 0,
}
VIT = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8, "image_size": 8}
SEG = {
    "num_encoder_blocks": 1,
    "depths": [1],
    "sr_ratios": [1],
    "hidden_sizes": [8],
    "patch_sizes": [3],
    "strides": [2],
}
SEG |= {"num_attention_heads": [1], "mlp_ratios": [1], "decoder_hidden_size": 8}
HEADS = [
    ("GPT2LMHeadModel", "GPT2Config", {"n_embd": 8, "n_layer": 1, "n_head": 2, **SMALL}, "tokens"),
    ("LlamaForCausalLM", "LlamaConfig", BERT, "tokens"),
    ("BartForCausalLM", "BartConfig", BART, "tokens"),
    ("BertForMaskedLM", "BertConfig", BERT, "tokens"),
    ("BertForTokenClassification", "BertConfig", {**BERT, "num_labels": 4}, "tags"),
    ("T5ForConditionalGeneration", "T5Config", T5, "tokens"),
    ("BartForConditionalGeneration", "BartConfig", BART, "tokens"),
    ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": 3}, "classes"),
    ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": 1}, "numbers"),
    ("BertForSequenceClassification", "BertConfig", {**BERT, "num_labels": 3}, "several"),
    ("LlamaForSequenceClassification", "LlamaConfig", {**BERT, "num_labels": 3, "pad_token_id": 0}, "classes"),
    ("BertForQuestionAnswering", "BertConfig", BERT, "spans"),
    ("BertForMultipleChoice", "BertConfig", BERT, "choices"),
    ("ViTForImageClassification", "ViTConfig", {**VIT, "patch_size": 4, "num_labels": 3}, "images"),
    ("SegformerForSemanticSegmentation", "SegformerConfig", {**SEG, "num_labels": 4}, "pixels"),
]


def drawn(kind: str, rows: int, share: float, seed: int) -> dict[str, torch.Tensor]:
    """A batch of `rows` rows, of whose targets about `share` are valid."""
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(1, 20, (rows, 6), generator=g)

    def ignored(labels: torch.Tensor, ignore: int = -100) -> torch.Tensor:
        return torch.where(torch.rand(labels.shape, generator=g) < share, labels, torch.full_like(labels, ignore))

    match kind:
        case "tokens" | "tags":
            return {"input_ids": ids, "labels": ignored(torch.randint(0, 4, (rows, 6), generator=g))}
        case "classes":
            return {"input_ids": ids, "labels": torch.randint(0, 3, (rows,), generator=g)}
        case "numbers":
            return {"input_ids": ids, "labels": torch.rand(rows, generator=g, dtype=torch.float64)}
        case "several":
            return {"input_ids": ids, "labels": (torch.rand(rows, 3, generator=g) < 0.5).double()}
        case "spans":
            places = {name: torch.randint(0, 6, (rows,), generator=g) for name in ("start_positions", "end_positions")}
            return {"input_ids": ids, **places}
        case "choices":
            ids = torch.randint(1, 20, (rows, 2, 6), generator=g)
            return {"input_ids": ids, "labels": torch.randint(0, 2, (rows,), generator=g)}
    pixels = torch.rand(rows, 3, 8, 8, generator=g, dtype=torch.float64)
    if kind == "images":
        return {"pixel_values": pixels, "labels": torch.randint(0, 3, (rows,), generator=g)}
    return {"pixel_values": pixels, "labels": ignored(torch.randint(0, 4, (rows, 8, 8), generator=g), 255)}


def summed(model: torch.nn.Module, batch: dict[str, torch.Tensor], count: str) -> tuple[int, torch.Tensor]:
    """The count, and the loss times the count with its gradient, in one vector."""
    n = int(eval(count, {"len": len}, dict(batch)))
    model.zero_grad(set_to_none=True)
    loss = model(**batch).loss
    (loss * n).backward()
    parts = [p.grad.flatten() if p.grad is not None else p.new_zeros(p.numel()) for p in model.parameters()]
    return n, torch.cat([(loss * n).detach().reshape(1), *parts])


@pytest.mark.parametrize(("name", "config", "options", "kind"), HEADS, ids=lambda value: str(value)[:40])
def test_the_loss_is_a_mean_over_the_declared_count(name: str, config: str, options: dict, kind: str) -> None:
    contract = head_contract(f"transformers.{name}")
    assert contract is not None
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**options)).double().eval()
    first, second = drawn(kind, 3, 0.4, 1), drawn(kind, 4, 0.9, 2)
    both = {key: torch.cat([first[key], second[key]]) for key in first}
    (n1, one), (n2, two), (n12, all_) = (summed(model, batch, contract.count) for batch in (first, second, both))
    assert n12 == n1 + n2
    assert n1 != n2
    torch.testing.assert_close(all_, one + two, rtol=1e-5, atol=1e-6)
    assert not torch.allclose(all_ / n12, (one / n1 + two / n2) / 2, rtol=1e-3)


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "BertForMaskedLM"])
def test_the_count_of_the_other_kind_is_not_its_normaliser(name: str) -> None:
    """The check can fail: a shifted count under a masked loss, an unshifted one under a causal loss."""
    other = "(labels != -100).sum()" if name.startswith("GPT2") else "(labels[..., 1:] != -100).sum()"
    config, options = next((c, o) for n, c, o, _ in HEADS if n == name)
    torch.manual_seed(0)
    model = getattr(transformers, name)(getattr(transformers, config)(**options)).double().eval()
    first, second = drawn("tokens", 3, 0.4, 1), drawn("tokens", 4, 0.9, 2)
    both = {key: torch.cat([first[key], second[key]]) for key in first}
    (_, one), (_, two), (_, all_) = (summed(model, batch, other) for batch in (first, second, both))
    assert not torch.allclose(all_, one + two, rtol=1e-3)
