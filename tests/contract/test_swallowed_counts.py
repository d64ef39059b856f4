"""Model heads that swallow the item count: what is reported, what stays silent."""

from __future__ import annotations

import textwrap

import pytest

from accumlint.apis.flagged_heads import FLAGGED
from accumlint.apis.registry import load
from accumlint.contract.heads import check_heads
from accumlint.contract.verdict import Confidence, Violation
from accumlint.reading.read import read_module

HEAD = """\
import torch
from torch import nn
from torch.nn import CrossEntropyLoss
import torch.nn.functional as F
from transformers import BertForMaskedLM, BertPreTrainedModel, Gemma3nForConditionalGeneration, PreTrainedModel
from transformers.models.esm.modeling_esm import EsmPreTrainedModel
from other import SomeModule


def token_loss(logits, labels, reduction="mean"):
    return F.cross_entropy(logits.flatten(0, 1), labels.flatten())


"""

PLAIN = "loss = CrossEntropyLoss()(logits, labels)"
REPORTED = {
    "a loss in one expression": PLAIN,
    "a loss made before": "loss_fct = nn.CrossEntropyLoss()\nloss = loss_fct(logits.view(-1, 2), labels.view(-1))",
    "a loss of another shape in each branch": """
        if self.num_labels == 1:
            loss_fct = nn.MSELoss()
            loss = loss_fct(logits.squeeze(), labels.squeeze())
        else:
            loss_fct = nn.BCEWithLogitsLoss()
            loss = loss_fct(logits, labels)
        """,
    "a loss made in __init__": "loss = self.criterion(logits, labels)",
    "the head's own loss function without the kwargs": "loss = self.loss_function(logits, labels, self.config)",
    "a helper method": "loss = self.value_loss(logits, labels)",
    "a helper function": "loss = token_loss(logits, labels)",
    "labels under another name": "shifted = labels[..., 1:].contiguous()\nloss = F.cross_entropy(logits, shifted)",
    "a masked mean": """
        losses = F.cross_entropy(logits, labels, reduction="none")
        loss = (losses * mask).sum() / mask.sum()
        """,
    "a mean of elements": 'loss = F.cross_entropy(logits, labels, reduction="none").mean()',
    "a sum over a count": 'loss = F.cross_entropy(logits, labels, reduction="sum")\nloss /= labels.numel()',
    "the mean of a function": 'loss = torch.mean(F.cross_entropy(logits, labels, reduction="none"))',
    "added to another loss": "loss = aux + 0.5 * F.l1_loss(logits, labels)",
    "the labels go to the base model, too": """
        outputs = self.model(input_ids, labels=labels, **kwargs)
        loss = F.cross_entropy(self.lm_head(outputs.last_hidden_state), labels)
        """,
    "the count goes to a decoder that is given no labels": """
        decoder_kwargs = {name: value for name, value in kwargs.items() if name.startswith("decoder_")}
        if "num_items_in_batch" in kwargs:
            decoder_kwargs["num_items_in_batch"] = kwargs.pop("num_items_in_batch", None)
        logits = self.decoder(input_ids, **decoder_kwargs).logits
        loss = CrossEntropyLoss()(logits, labels)
        """,
    "another key of the kwargs is used": "scale = kwargs.get('scale', 1.0)\nloss = scale * F.mse_loss(logits, labels)",
}
SILENT = {
    "the loss is that of a model which is given both": """
        outputs = self.language_model(input_ids, labels=labels, **kwargs)
        loss = outputs.loss + 0.1 * F.cross_entropy(logits, labels)
        """,
    "the count moves into the kwargs of the loss": """
        loss_kwargs = {}
        loss_kwargs["num_items_in_batch"] = kwargs.pop("num_items_in_batch", None)
        loss = token_loss(logits, labels, **loss_kwargs)
        """,
    "the kwargs go to the loss": "loss = self.loss_function(logits, labels, **kwargs)",
    "the kwargs go to a helper": "loss = self.value_loss(logits, labels, **kwargs)",
    "a selection of the kwargs goes to the loss": """
        loss_kwargs = {key: value for key, value in kwargs.items() if key != "scale"}
        loss = self.loss_function(logits, labels, **loss_kwargs)
        """,
    "the count is taken out of the kwargs": """
        count = kwargs.get("num_items_in_batch")
        loss = F.cross_entropy(logits, labels, reduction="sum") / count
        """,
    "a sum": 'loss = F.cross_entropy(logits, labels, reduction="sum")',
    "a reduction of the configuration": "loss = F.ctc_loss(logits, labels, a, b, reduction=self.config.reduction)",
    "the inner model is given the labels and the kwargs": "loss = self.model(input_ids, labels=labels, **kwargs).loss",
    "an unknown loss": "loss = contrastive_loss(logits, labels)",
    "no loss": "loss = None",
    "not implemented": "raise NotImplementedError('training is not supported')",
    "kwargs are refused": f"if kwargs:\n    raise TypeError(list(kwargs))\n{PLAIN}",
    "kwargs are refused by their number": f"if len(kwargs) > 0:\n    raise TypeError(list(kwargs))\n{PLAIN}",
}


def head(
    body: str = PLAIN,
    *,
    base: str = "PreTrainedModel",
    signature: str = "input_ids=None, labels=None, **kwargs",
    flag: str = "",
    name: str = "TinyForTagging",
    before: str = "",
) -> str:
    lines = [
        f"class {name}({base}):",
        *([f"    {flag}"] if flag else []),
        "    def __init__(self, config):",
        "        super().__init__(config)",
        "        self.model = SomeModule(config)",
        "        self.criterion = nn.CrossEntropyLoss(ignore_index=-1)",
        "",
        "    def value_loss(self, values, targets, scale=1.0):",
        "        return scale * nn.functional.mse_loss(values, targets)",
        "",
        f"    def forward(self, {signature}):",
        "        logits = self.model(input_ids, **kwargs)",
        textwrap.indent(textwrap.dedent(body).strip(), " " * 8),
        "        return {'loss': loss, 'logits': logits}",
    ]
    return HEAD + before + "\n".join(lines) + "\n"


def check(source: str) -> list[tuple[int, Violation]]:
    module = read_module(source, "modeling_tiny.py")
    return [(module.syntax.span(each.node).line, each) for each in check_heads(module, load())]


def lines(source: str) -> list[int]:
    return [line for line, _ in check(source)]


def def_line(source: str) -> int:
    return next(number for number, line in enumerate(source.splitlines(), 1) if "def forward" in line)


@pytest.mark.parametrize("name", REPORTED)
def test_reported(name: str) -> None:
    source = head(REPORTED[name])
    assert lines(source) == [def_line(source)]


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    assert lines(head(SILENT[name])) == []


@pytest.mark.parametrize(
    "base", ["PreTrainedModel", "BertPreTrainedModel", "BertForMaskedLM", "SomeModule, PreTrainedModel"]
)
def test_heads_by_their_base(base: str) -> None:
    source = head(base=base)
    assert lines(source) == [def_line(source)]


@pytest.mark.parametrize("base", ["nn.Module", "SomeModule", "EsmPreTrainedModel", "Gemma3nForConditionalGeneration"])
def test_no_heads_or_flagged_by_their_base(base: str) -> None:
    assert lines(head(base=base)) == []


def test_a_mixin_that_finishes_a_model_is_a_head() -> None:
    source = head(base="object").replace("        self.model = ", "        self.post_init()\n        self.model = ")
    assert lines(source) == [def_line(source)]


def test_a_base_of_the_file_may_carry_the_flag() -> None:
    base = "class TinyPreTrainedModel(PreTrainedModel):\n    accepts_loss_kwargs = False\n\n\n"
    assert lines(head(base="TinyPreTrainedModel", before=base)) == []
    assert lines(head(base="TinyPreTrainedModel", before=base.replace("False", "True"))) != []


@pytest.mark.parametrize("flag", ["accepts_loss_kwargs = False", "accepts_loss_kwargs = DEFAULT"])
def test_the_flag(flag: str) -> None:
    assert lines(head(flag=flag)) == []


def test_the_flag_as_a_property() -> None:
    assert lines(head(flag="@property\n    def accepts_loss_kwargs(self):\n        return False\n")) == []


@pytest.mark.parametrize(
    "signature",
    [
        "input_ids=None, labels=None, kwargs=None",
        "input_ids=None, start_positions=None, **kwargs",
        "input_ids=None, mlm_labels=None, **kwargs",
    ],
)
def test_the_signature_decides(signature: str) -> None:
    """The Trainer leaves the division to a model with `**kwargs`, and only if the batch has `labels`."""
    targets = "start_positions" if "start" in signature else "mlm_labels" if "mlm" in signature else "labels"
    assert lines(head(PLAIN.replace("labels", targets), signature=signature)) == []


def test_a_count_that_is_declared_and_not_used_is_swallowed() -> None:
    source = head(signature="input_ids=None, labels=None, num_items_in_batch=None, **kwargs")
    assert lines(source) == [def_line(source)]


@pytest.mark.parametrize(
    "name", ["TinyForObjectDetection", "TinyForInstanceSegmentation", "TinyForSegmentation", "TinyForCTC"]
)
def test_boxes_and_ctc_are_no_counted_means(name: str) -> None:
    assert lines(head("loss = self.loss_function(logits, labels, self.config)", name=name)) == []


def test_an_own_loss_function_is_not_taken_for_a_mean() -> None:
    source = head("loss = self.loss_function(logits, labels)", flag="loss_function = make_loss()")
    assert lines(source) == []


def test_the_finding_names_the_loss_and_what_it_assumes() -> None:
    source = head(base="BertForMaskedLM")
    ((_, violation),) = check(source)
    assert violation.confidence is Confidence.ASSUMED
    assert violation.assumptions == ("BertForMaskedLM does not set accepts_loss_kwargs = False",)
    ((_, direct),) = check(head())
    assert direct.confidence is Confidence.PROVED
    assert direct.other is not None
    module = read_module(head(), "modeling_tiny.py")
    assert module.syntax.text(direct.other) == "CrossEntropyLoss()(logits, labels)"


@pytest.mark.parametrize("line", ["model.accepts_loss_kwargs = False", "trainer.model_accepts_loss_kwargs = False"])
def test_a_file_that_tells_the_trainer_itself(line: str) -> None:
    assert lines(head() + f"\n\nmodel = trainer = make()\n{line}\n") == []


def test_the_number_of_steps_is_read_off_the_arguments() -> None:
    ((_, violation),) = check(head() + "\n\nargs = TrainingArguments(gradient_accumulation_steps=8)\n")
    assert violation.steps == 8


def test_flagged_names_are_whole_class_names() -> None:
    assert {"Qwen2VLModel", "EsmPreTrainedModel", "Qwen2_5_VLForConditionalGeneration"} <= FLAGGED
    assert all(name[0].isupper() and name.isidentifier() for name in FLAGGED)


def test_a_loss_that_a_module_of_the_file_keeps() -> None:
    """As in speaker verification: the head's objective is a module, whose own criterion is made in its `__init__`."""
    module = textwrap.dedent(
        """
        class MarginLoss(nn.Module):
            def __init__(self):
                super().__init__()
                self.criterion = nn.CrossEntropyLoss()

            def forward(self, hidden, labels):
                return self.criterion(hidden, labels.flatten())
        """
    )
    source = head("loss = MarginLoss()(logits, labels)")
    assert lines(source + module) == lines(head())
