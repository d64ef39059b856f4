from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import because, is_symbolic

_HOW = {
    "missing": "compute_loss does not take num_items_in_batch",
    "unused": "compute_loss takes num_items_in_batch and never uses it",
    "swallowed": "compute_loss lets num_items_in_batch vanish in its **kwargs",
    "function unused": "the compute_loss_func takes num_items_in_batch and never uses it",
    "function swallowed": "the compute_loss_func lets num_items_in_batch vanish in its **kwargs",
}


class IgnoredItemCount(Rule):
    """A Trainer's `compute_loss` returns a mean per-token loss and ignores `num_items_in_batch`.

    ## What it does
    Reports the `def` of a `compute_loss` in a subclass of the Hugging Face `Trainer` that computes a mean over tokens
    and does not use the window's count: the parameter is missing, unused, or swallowed by `**kwargs`. A function that
    is handed to a Trainer as `compute_loss_func` is reported for a mean of any kind: with one, the Trainer divides
    nowhere.

    ## Why it is bad
    `num_items_in_batch` is `sum_k n_k`, the valid targets of the whole window, and the loss should be
    `S_k / sum_k n_k`. The Trainer divides by the number of microbatches itself only if the model takes no loss
    arguments. Most models do, and then a mean is divided nowhere: with 4 accumulation steps the gradient is 4x too
    large. Where the Trainer does divide, microbatches with 2 and 5 valid targets weigh the same (ACC101): a target of
    the first weighs 2.5x one of the second. Where the parameter is missing, versions that pass it (4.46 and later)
    raise TypeError.

    ## Exceptions
    Silent where the count is used, where it is handed on (to `super().compute_loss`, or to a model that takes it), and
    for losses that are a mean over examples or pairs on purpose (preference and reward losses): for those set
    `self.model_accepts_loss_kwargs = False`, so that the Trainer divides.

    ## References
    - huggingface/transformers#34263, huggingface/transformers#34191, huggingface/trl#6006
    - https://huggingface.co/docs/transformers/main/trainer
    - https://huggingface.co/blog/gradient_accumulation
    """

    code = "ACC105"
    name = "ignored-item-count"
    clause = Clause.IGNORED_ITEM_COUNT
    summary = "a Trainer's compute_loss returns a mean per-token loss and ignores num_items_in_batch"
    repair = Repair.SIGNATURE
    repair_safety = (
        "Unsafe, where the loss is one plain cross-entropy: its sum is divided by num_items_in_batch, and its mean is "
        "kept for evaluation, where there is no count. How the Trainer counts items (shifted or unshifted labels, over "
        "ranks or not) depends on the installed version and its arguments, so nothing is called proved. None for other "
        "losses."
    )

    def message(self, violation: Violation) -> str:
        """`detail` is `missing`, `unused` or `swallowed`; anything else gives the neutral wording."""
        how = _HOW.get(violation.detail, "compute_loss ignores num_items_in_batch")
        steps = ""
        if violation.steps and violation.steps > 1:
            lead = "e.g." if is_symbolic(violation) else "about"
            steps = f" (then {lead} {violation.steps}x too large)"
        if violation.detail.startswith("function"):
            return (
                f"{how}: its mean is divided nowhere{steps}, as a Trainer with a loss function leaves the division to "
                "it; divide the summed loss by num_items_in_batch"
            )
        return (
            f"{how}: its mean over tokens gets equal weight in every microbatch, or is divided nowhere if the "
            f"model takes loss arguments{steps}{because(violation)}; divide the summed loss by num_items_in_batch"
        )

    def hint(self, violation: Violation) -> str:
        return 'use reduction="sum" and divide by num_items_in_batch'

    good = (
        example(
            """
            import torch.nn.functional as F
            from transformers import Trainer


            class SmoothTrainer(Trainer):
                def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                    labels = inputs.pop("labels")
                    outputs = model(**inputs)
                    logits = outputs.logits[:, :-1].flatten(0, 1)
                    reduction = "mean" if num_items_in_batch is None else "sum"
                    loss = F.cross_entropy(logits, labels[:, 1:].flatten(), label_smoothing=0.1, reduction=reduction)
                    if num_items_in_batch is not None:
                        loss = loss / num_items_in_batch
                        if self.args.average_tokens_across_devices:
                            loss = loss * self.accelerator.num_processes
                    return (loss, outputs) if return_outputs else loss
            """,
            "The sum is divided by the window's count; the mean is for evaluation, where there is no count.",
        ),
        example(
            """
            from transformers import Trainer


            class LoggingTrainer(Trainer):
                def compute_loss(self, model, inputs, *args, **kwargs):
                    loss = super().compute_loss(model, inputs, *args, **kwargs)
                    self.last_input_length = inputs["input_ids"].size(1)
                    return loss
            """,
            "The count is handed on.",
        ),
        example(
            """
            import torch.nn.functional as F
            from transformers import Trainer


            class RewardTrainer(Trainer):
                def __init__(self, *args, **kwargs):
                    super().__init__(*args, **kwargs)
                    self.model_accepts_loss_kwargs = False

                def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                    chosen = model(input_ids=inputs["chosen"]).logits.squeeze(-1)
                    rejected = model(input_ids=inputs["rejected"]).logits.squeeze(-1)
                    loss = -F.logsigmoid(chosen - rejected).mean()
                    return (loss, {"margin": chosen - rejected}) if return_outputs else loss
            """,
            "One target per pair, and the Trainer is told to divide by the number of steps.",
        ),
    )
    bad = (
        example(
            """
            import torch.nn.functional as F
            from transformers import Trainer


            class SmoothTrainer(Trainer):
                def compute_loss(self, model, inputs, return_outputs=False):  # <- here
                    labels = inputs.pop("labels")
                    outputs = model(**inputs)
                    logits = outputs.logits[:, :-1].flatten(0, 1)
                    loss = F.cross_entropy(logits, labels[:, 1:].flatten(), label_smoothing=0.1)
                    return (loss, outputs) if return_outputs else loss
            """,
            "The parameter is missing.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from transformers import Trainer


            class DistillTrainer(Trainer):
                teacher = None

                def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # <- here
                    outputs = model(input_ids=inputs["input_ids"])
                    with torch.no_grad():
                        teacher = self.teacher(input_ids=inputs["input_ids"]).logits.softmax(-1)
                    kl = F.kl_div(outputs.logits.log_softmax(-1), teacher, reduction="none").sum(-1)
                    loss = kl[inputs["labels"] != -100].mean()
                    return (loss, outputs) if return_outputs else loss
            """,
            "The parameter is there, and unused.",
        ),
        example(
            """
            from torch.nn import CrossEntropyLoss
            from transformers import Seq2SeqTrainer


            class WeightedTrainer(Seq2SeqTrainer):
                def compute_loss(self, model, inputs, return_outputs=False, **kwargs):  # <- here
                    outputs = model(**inputs)
                    criterion = CrossEntropyLoss(ignore_index=-100)
                    loss = criterion(outputs.logits.flatten(0, 1), inputs["labels"].flatten())
                    return (loss, outputs) if return_outputs else loss
            """,
            "The parameter is swallowed by `**kwargs`.",
        ),
        example(
            """
            import torch.nn.functional as F
            from transformers import Trainer, TrainingArguments


            def smoothed_loss(outputs, labels, num_items_in_batch=None):  # <- here
                logits = outputs.logits.flatten(0, 1)
                return F.cross_entropy(logits, labels.flatten(), label_smoothing=0.1)


            def train(model, data):
                arguments = TrainingArguments("out", gradient_accumulation_steps=8)
                Trainer(model, arguments, train_dataset=data, compute_loss_func=smoothed_loss).train()
            """,
            "A loss function that never uses the count: 8 means are summed, and nothing divides them.",
        ),
    )
