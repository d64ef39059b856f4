"""The loss contracts of transformers heads."""

import pytest

from accumlint.apis.heads import AUTO_CLASSES, HEADS, find_head


@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("transformers.AutoModelForCausalLM", "({labels}[..., 1:] != -100).sum()"),
        ("LlamaForCausalLM", "({labels}[..., 1:] != -100).sum()"),
        ("GPT2LMHeadModel", "({labels}[..., 1:] != -100).sum()"),
        ("BertForMaskedLM", "({labels} != -100).sum()"),
        ("T5ForConditionalGeneration", "({labels} != -100).sum()"),
        ("ViTForImageClassification", "{labels}.size(0)"),
        ("SegformerForSemanticSegmentation", "({labels} != 255).sum()"),
        ("LlavaForConditionalGeneration", None),
        ("MixtralForCausalLM", None),
        ("GPT2DoubleHeadsModel", None),
        ("BertForQuestionAnswering", "{labels}.size(0)"),
        ("BertForSequenceClassification", "{labels}.size(0)"),
        ("MBartForCausalLM", "({labels} != -100).sum()"),
        ("GPT2Model.AutoModelForTokenClassification", "({labels} != -100).sum()"),
        ("BrosForTokenClassification", None),
        ("FlaubertWithLMHeadModel", None),
        ("VisualBertForQuestionAnswering", None),
        ("Wav2Vec2ForCTC", None),
    ],
)
def test_count(name: str, count: str | None) -> None:
    head = find_head(name)
    assert head is not None
    assert head.count == count


@pytest.mark.parametrize("name", ["BertModel", "transformers.AutoModel", "Net", "ForCausalLMConfig"])
def test_no_contract(name: str) -> None:
    assert find_head(name) is None


def test_a_head_is_sure_only_with_a_count_that_parses() -> None:
    for head in HEADS:
        assert head.source.startswith("transformers 5.24.0, ")
        assert head.unsure or head.count is not None, head.suffix
        if head.count is not None:
            compile(head.count.replace("{labels}", "labels"), head.suffix, "eval")


def test_suffixes_differ_and_auto_classes_have_contracts() -> None:
    suffixes = [head.suffix for head in HEADS]
    assert len(suffixes) == len(set(suffixes))
    assert [name for name in AUTO_CLASSES if name != "AutoModel" and find_head(name) is None] == []


def test_the_shifted_count_is_what_a_shifted_loss_divides_by() -> None:
    torch = pytest.importorskip("torch")
    head = find_head("LlamaForCausalLM")
    assert head is not None
    assert head.count is not None
    labels = torch.tensor([[3, 1, -100, 2], [0, -100, -100, 1]])
    logits = torch.rand(2, 4, 5, dtype=torch.float64)
    shifted = torch.nn.functional.pad(labels, (0, 1), value=-100)[..., 1:].reshape(-1)
    mean, total = (
        torch.nn.functional.cross_entropy(logits.reshape(-1, 5), shifted, reduction=reduction)
        for reduction in ("mean", "sum")
    )
    count = eval(head.count.format(labels="labels"), {"labels": labels})
    torch.testing.assert_close(mean * count, total)
