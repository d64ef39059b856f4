from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import is_symbolic, number, share


class SwallowedItemCount(Rule):
    """A model head swallows `num_items_in_batch` in its `**kwargs`, so that the Trainer divides nowhere.

    ## What it does
    Reports the `forward` of a `PreTrainedModel` head that takes `**kwargs`, computes a mean loss from labels, does not
    pass the kwargs on to that loss and does not set `accepts_loss_kwargs = False`.

    ## Why it is bad
    The Hugging Face Trainer concludes from `**kwargs` in the signature that the model will divide its summed loss by
    `num_items_in_batch` (`sum_k n_k`), and leaves the division to it. A head that computes a mean anyway leaves
    `sum_k S_k / n_k`: with 4 accumulation steps the gradient is 4x too large (measured: exactly 4.0 for sequence
    classification with equal counts). Gradient clipping and Adam hide it; the logged loss shows it.

    ## Exceptions
    Silent where the kwargs (or the count) reach the loss, as in `self.loss_function(..., **kwargs)`, where
    `accepts_loss_kwargs = False` tells the Trainer to divide, where `forward` has no `**kwargs`, and where it computes
    no loss.

    ## References
    - huggingface/transformers#47688, huggingface/transformers#35438
    - https://huggingface.co/blog/gradient_accumulation
    """

    code = "ACC108"
    name = "swallowed-item-count"
    clause = Clause.SWALLOWED_ITEM_COUNT
    summary = "a model head swallows num_items_in_batch in its **kwargs, so that the Trainer divides nowhere"
    repair = Repair.SIGNATURE
    repair_safety = (
        "Unsafe, where the loss is one plain cross-entropy: its sum is divided by the num_items_in_batch of the "
        "keywords. For other losses `accepts_loss_kwargs = False` is shown and never applied: it restores the "
        "Trainer's own division by the number of microbatches, which is right where counts are equal."
    )

    def message(self, violation: Violation) -> str:
        """`steps` is the configured number, if any; `actual` and `expected` give the factor otherwise."""
        text = "forward swallows num_items_in_batch in its **kwargs and returns a mean: the Trainer divides nowhere"
        ratio = share(violation)
        if violation.steps and violation.steps > 1 and not is_symbolic(violation):
            text += f" and the gradient is {violation.steps}x too large with {violation.steps} accumulation steps"
        elif ratio and ratio > 1:
            text += f" and the gradient is too large, e.g. {number(ratio)}x with {number(ratio)} accumulation steps"
        else:
            text += " and the gradient grows with the accumulation steps"
        return text + "; pass the kwargs to the loss or set accepts_loss_kwargs = False"

    def hint(self, violation: Violation) -> str:
        return "divide the summed loss by num_items_in_batch, or set accepts_loss_kwargs = False in the class"

    good = (
        example(
            """
            from torch import nn
            from transformers import PreTrainedModel
            from transformers.modeling_outputs import SequenceClassifierOutput


            class TinyForSequenceClassification(PreTrainedModel):
                accepts_loss_kwargs = False

                def __init__(self, config, backbone):
                    super().__init__(config)
                    self.backbone = backbone
                    self.classifier = nn.Linear(config.hidden_size, config.num_labels)

                def forward(self, input_ids=None, labels=None, **kwargs):
                    logits = self.classifier(self.backbone(input_ids, **kwargs)[:, 0])
                    loss = None
                    if labels is not None:
                        loss = nn.functional.cross_entropy(logits, labels)
                    return SequenceClassifierOutput(loss=loss, logits=logits)
            """,
            "The Trainer is told that this head does not use the count, and divides itself.",
        ),
        example(
            """
            from torch import nn
            from transformers import PreTrainedModel
            from transformers.modeling_outputs import CausalLMOutput


            class TinyForCausalLM(PreTrainedModel):
                def __init__(self, config, backbone):
                    super().__init__(config)
                    self.backbone = backbone
                    self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)

                def forward(self, input_ids=None, labels=None, **kwargs):
                    logits = self.lm_head(self.backbone(input_ids))
                    loss = None
                    if labels is not None:
                        loss = self.loss_function(logits, labels, vocab_size=self.config.vocab_size, **kwargs)
                    return CausalLMOutput(loss=loss, logits=logits)
            """,
            "The kwargs reach the loss, which divides by the count.",
        ),
        example(
            """
            from torch import nn
            from transformers import PreTrainedModel
            from transformers.modeling_outputs import TokenClassifierOutput


            class TinyForTokenClassification(PreTrainedModel):
                def __init__(self, config, backbone):
                    super().__init__(config)
                    self.backbone = backbone
                    self.classifier = nn.Linear(config.hidden_size, config.num_labels)

                def forward(self, input_ids=None, labels=None, num_items_in_batch=None):
                    logits = self.classifier(self.backbone(input_ids))
                    loss = None
                    if labels is not None:
                        reduction = "mean" if num_items_in_batch is None else "sum"
                        loss = nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction=reduction)
                        if num_items_in_batch is not None:
                            loss = loss / num_items_in_batch
                    return TokenClassifierOutput(loss=loss, logits=logits)
            """,
            "The count is a parameter, and is used.",
        ),
    )
    bad = (
        example(
            """
            from torch import nn
            from transformers import PreTrainedModel
            from transformers.modeling_outputs import SequenceClassifierOutput


            class TinyForSequenceClassification(PreTrainedModel):
                def __init__(self, config, backbone):
                    super().__init__(config)
                    self.backbone = backbone
                    self.classifier = nn.Linear(config.hidden_size, config.num_labels)

                def forward(self, input_ids=None, labels=None, **kwargs):  # <- here
                    logits = self.classifier(self.backbone(input_ids, **kwargs)[:, 0])
                    loss = None
                    if labels is not None:
                        loss = nn.functional.cross_entropy(logits, labels)
                    return SequenceClassifierOutput(loss=loss, logits=logits)
            """,
        ),
        example(
            """
            import torch
            from torch.nn import CrossEntropyLoss
            from transformers import BertModel, BertPreTrainedModel


            class BertForTagging(BertPreTrainedModel):
                def __init__(self, config):
                    super().__init__(config)
                    self.bert = BertModel(config)
                    self.tags = torch.nn.Linear(config.hidden_size, config.num_labels)

                def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):  # <- here
                    hidden = self.bert(input_ids, attention_mask=attention_mask).last_hidden_state
                    logits = self.tags(hidden)
                    if labels is None:
                        return {"logits": logits}
                    loss = CrossEntropyLoss()(logits.view(-1, logits.size(-1)), labels.view(-1))
                    return {"loss": loss, "logits": logits}
            """,
            "A dictionary instead of an output class, and a module instead of a function.",
        ),
        example(
            """
            from torch import nn
            from transformers import LlamaModel, LlamaPreTrainedModel


            class LlamaWithValueHead(LlamaPreTrainedModel):
                def __init__(self, config):
                    super().__init__(config)
                    self.model = LlamaModel(config)
                    self.value = nn.Linear(config.hidden_size, 1)

                def value_loss(self, values, labels):
                    return nn.functional.mse_loss(values, labels.float())

                def forward(self, input_ids=None, labels=None, **loss_kwargs):  # <- here
                    values = self.value(self.model(input_ids).last_hidden_state).squeeze(-1)
                    loss = self.value_loss(values, labels) if labels is not None else None
                    return (loss, values)
            """,
            "The mean is in a helper method, which gets no kwargs.",
        ),
    )
