"""Trainers that ignore the item count: what is reported and how it is worded, what stays silent."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from accumlint.apis.registry import load
from accumlint.contract.loss_functions import check_loss_functions
from accumlint.contract.trainers import check_trainers, how_ignored, is_model_loss
from accumlint.contract.verdict import Confidence, Violation
from accumlint.reading import ir
from accumlint.reading.project import open_project
from accumlint.reading.read import read_module

TOKENS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from functools import partial
from transformers import AutoModelForCausalLM, Seq2SeqTrainer, Trainer
from trl import DPOTrainer, SFTTrainer
"""
ROWS = """\
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import AutoModelForSequenceClassification, Trainer
"""


def check(source: str) -> list[tuple[int, Violation]]:
    module = read_module(source, "trainer.py")
    return [(module.syntax.span(each.node).line, each) for each in check_trainers(module, load())]


def def_line(source: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if "def compute_loss" in line)


REPORTED = {
    "the loss of a causal model, the count in the kwargs": (
        "swallowed",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                outputs = model(**inputs)
                loss = outputs.loss
                self.seen = loss.detach()
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a focal loss of the selected tokens": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                logits = outputs.logits[..., :-1, :].contiguous()
                targets = labels[..., 1:].contiguous()
                logits = logits.view(-1, logits.size(-1))
                ce = F.cross_entropy(logits, targets.view(-1), ignore_index=-100, reduction="none")
                focal = (1 - torch.exp(-ce)) ** 2 * ce
                loss = focal[targets.view(-1) != -100].mean()
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a masked mean of log-probabilities by hand": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
                logp = outputs.logits[:, :-1].log_softmax(-1)
                labels = inputs["labels"][:, 1:]
                mask = labels != -100
                token = logp.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
                loss = -(token * mask).sum() / mask.sum()
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "the count is taken out of the kwargs and thrown away": (
        "swallowed",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                kwargs.pop("num_items_in_batch", None)
                labels = inputs["labels"]
                outputs = model(**inputs)
                loss_fct = nn.CrossEntropyLoss()
                logits = outputs.logits[..., :-1, :]
                loss = loss_fct(logits.reshape(-1, logits.size(-1)), labels[..., 1:].reshape(-1))
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "the mean is in a helper method": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def _token_loss(self, logits, labels):
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(input_ids=inputs["input_ids"])
                loss = self._token_loss(outputs.logits, inputs["labels"])
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "the loss is made in __init__, the count deleted": (
        "unused",
        TOKENS,
        """
        class T(transformers.Trainer):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.loss_fct = nn.CrossEntropyLoss(ignore_index=-100)

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                del num_items_in_batch
                labels = inputs["labels"]
                logits = model(**inputs).logits
                loss = self.loss_fct(logits.view(-1, logits.shape[-1]), labels.view(-1))
                return (loss, logits) if return_outputs else loss
        """,
    ),
    "super is called without the count": (
        "unused",
        TOKENS,
        """
        class T(SFTTrainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                loss, outputs = super().compute_loss(model, inputs, return_outputs=True)
                loss = loss + 0.01 * outputs.hidden_states[-1].pow(2).mean()
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a masked distillation loss": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                student = model(**inputs)
                with torch.no_grad():
                    teacher = self.teacher(**inputs)
                mask = (inputs["labels"] != -100).float()
                log_p = F.log_softmax(student.logits, -1)
                kl = F.kl_div(log_p, F.softmax(teacher.logits, -1), reduction="none").sum(-1)
                kd = (kl * mask).sum() / mask.sum().clamp(min=1)
                return (kd, student) if return_outputs else kd
        """,
    ),
    "the base is a class of the file": (
        "missing",
        TOKENS,
        """
        class Base(Trainer):
            pass


        class T(Base):
            def compute_loss(self, model, inputs, return_outputs=False):
                labels = inputs.pop("labels")
                logits = model(**inputs).logits
                return F.cross_entropy(logits.transpose(1, 2), labels)
        """,
    ),
    "the method is in a mixin": (
        "unused",
        TOKENS,
        """
        class LossMixin:
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                logits = model(**inputs).logits
                return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


        class T(LossMixin, Trainer):
            pass
        """,
    ),
    "class weights": (
        "swallowed",
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                loss_fct = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 4.0]))
                loss = loss_fct(outputs.logits.view(-1, 2), labels.view(-1))
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "the class is made in a function": (
        "unused",
        TOKENS,
        """
        def make():
            class T(Trainer):
                def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                    labels = inputs.pop("labels")
                    logits = model(**inputs).logits
                    return F.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
            return T
        """,
    ),
    "the label smoother without the count": (
        "unused",
        TOKENS,
        """
        class T(Seq2SeqTrainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels") if "labels" in inputs else None
                outputs = model(**inputs)
                if labels is not None:
                    loss = self.label_smoother(outputs, labels)
                else:
                    loss = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "active tokens are selected": (
        "unused",
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                active = inputs["attention_mask"].view(-1) == 1
                logits = outputs.logits.view(-1, self.model.config.num_labels)[active]
                loss = nn.CrossEntropyLoss()(logits, labels.view(-1)[active])
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a mean of K-dimensional cross entropy": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(input_ids=inputs["input_ids"])
                losses = F.cross_entropy(outputs.logits.transpose(1, 2), inputs["labels"], reduction="none")
                return losses.mean()
        """,
    ),
    "the first output of a causal model": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(**inputs)
                loss = outputs[0]
                if self.state.global_step % 10 == 0:
                    self.log({"ppl": loss.exp().item()})
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a training step that hands on": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def training_step(self, *args, **kwargs):
                self.calls += 1
                return super().training_step(*args, **kwargs)

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(inputs["input_ids"]).logits
                return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "R-Drop": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                first = model(**inputs)
                second = model(**inputs)
                ce = 0.5 * (first.loss + second.loss)
                pad = inputs["labels"].eq(-100)
                kl = F.kl_div(first.logits.log_softmax(-1), second.logits.softmax(-1), reduction="none")
                kl = kl.masked_fill(pad.unsqueeze(-1), 0.0).sum()
                loss = ce + kl
                return (loss, first) if return_outputs else loss
        """,
    ),
    "a module of the file that ignores targets": (
        "unused",
        TOKENS,
        """
        class FocalLoss(nn.Module):
            def __init__(self, gamma=2.0, ignore_index=-100):
                super().__init__()
                self.gamma = gamma
                self.ignore_index = ignore_index

            def forward(self, logits, targets):
                ce = F.cross_entropy(logits, targets, ignore_index=self.ignore_index, reduction="none")
                return ((1 - torch.exp(-ce)) ** self.gamma * ce).mean()


        class T(Trainer):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.loss_fn = FocalLoss()

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                loss = self.loss_fn(outputs.logits.view(-1, outputs.logits.size(-1)), labels.view(-1))
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a distillation loss of selected tokens": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs["labels"]
                out = model(**inputs)
                with torch.no_grad():
                    ref = self.ref(**inputs).logits
                mask = labels.view(-1) != -100
                p = F.log_softmax(out.logits.view(-1, out.logits.size(-1))[mask], dim=-1)
                q = F.softmax(ref.view(-1, ref.size(-1))[mask], dim=-1)
                loss = nn.KLDivLoss(reduction="batchmean")(p, q)
                return (loss, out) if return_outputs else loss
        """,
    ),
    "the loss of the outputs by its key": (
        "swallowed",
        TOKENS,
        """
        class T(Seq2SeqTrainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kw):
                aux = inputs.pop("aux_labels")
                outputs = model(**inputs)
                loss = outputs["loss"]
                loss = loss + 0.1 * F.cross_entropy(outputs["aux_logits"], aux)
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a penalty is added to the loss of the model": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(**inputs)
                if isinstance(outputs, dict) and "loss" not in outputs:
                    raise ValueError("no loss")
                loss = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
                if self.args.l2 > 0:
                    loss = loss + self.args.l2 * sum(p.pow(2).sum() for p in model.parameters())
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a sum of chunks over the own count": (
        "unused",
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")[:, 1:].reshape(-1)
                hidden = model.model(**inputs).last_hidden_state[:, :-1]
                hidden = hidden.reshape(-1, hidden.size(-1))
                total = 0.0
                for h, y in zip(hidden.split(1024), labels.split(1024)):
                    total = total + F.cross_entropy(model.lm_head(h), y, ignore_index=-100, reduction="sum")
                return total / (labels != -100).sum()
        """,
    ),
    "a masked mean by a function": (
        "unused",
        TOKENS,
        """
        def masked_mean(values, mask):
            return (values * mask).sum() / mask.sum()


        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(input_ids=inputs["input_ids"]).logits
                nll = F.cross_entropy(logits.transpose(1, 2), inputs["labels"], reduction="none")
                loss = masked_mean(nll, inputs["attention_mask"])
                return (loss, {"logits": logits}) if return_outputs else loss
        """,
    ),
}

SILENT = {
    "the count goes to the model": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(**inputs, num_items_in_batch=num_items_in_batch)
                return (outputs.loss, outputs) if return_outputs else outputs.loss
        """,
    ),
    "the kwargs go to super": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, **kwargs):
                self.n = inputs["input_ids"].numel()
                return super().compute_loss(model, inputs, **kwargs)
        """,
    ),
    "the count is taken out of the kwargs and used": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                n = kwargs.get("num_items_in_batch")
                labels = inputs.pop("labels")
                logits = model(**inputs).logits
                loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum") / n
                return loss
        """,
    ),
    "a preference loss": (
        TOKENS,
        """
        class T(Trainer):
            def logp(self, model, ids, mask):
                lp = model(input_ids=ids).logits.log_softmax(-1).gather(-1, ids[..., None]).squeeze(-1)
                return (lp * mask).sum(-1)

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                chosen = self.logp(model, inputs["c"], inputs["cm"])
                rejected = self.logp(model, inputs["r"], inputs["rm"])
                return -F.logsigmoid(chosen - rejected).mean()
        """,
    ),
    "a preference loss of length-normalised rewards": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                out = model(input_ids=inputs["ids"])
                lp = torch.gather(out.logits.log_softmax(-1), 2, inputs["labels"].unsqueeze(2)).squeeze(2)
                seq = (lp * inputs["m"]).sum(-1) / inputs["m"].sum(-1)
                chosen, rejected = seq.chunk(2)
                losses = -F.logsigmoid(chosen - rejected)
                return losses.mean()
        """,
    ),
    "a reward loss": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False):
                rj = model(input_ids=inputs["j"], attention_mask=inputs["attention_mask_j"])[0]
                rk = model(input_ids=inputs["k"], attention_mask=inputs["attention_mask_k"])[0]
                loss = -nn.functional.logsigmoid(rj - rk).mean()
                return (loss, {"rewards_j": rj}) if return_outputs else loss
        """,
    ),
    "one label a row": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                loss = F.cross_entropy(outputs.logits, labels)
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "one label a row, flattened": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                logits = outputs.logits.view(-1, self.model.config.num_labels)
                loss = nn.CrossEntropyLoss(label_smoothing=0.1)(logits, labels.view(-1))
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "several labels a row": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                loss = nn.BCEWithLogitsLoss()(outputs.logits.view(-1, 9), labels.float().view(-1, 9))
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a mean over rows of means over tokens": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                lp = model(**inputs).logits.log_softmax(-1)
                tok = F.nll_loss(lp.flatten(0, 1), inputs["labels"].flatten(), reduction="none").view(lp.shape[:2])
                m = inputs["labels"] != -100
                return ((tok * m).sum(1) / m.sum(1)).mean()
        """,
    ),
    "in-batch negatives": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                q = F.normalize(model(inputs["q"])[0][:, 0], dim=-1)
                d = F.normalize(model(inputs["d"])[0][:, 0], dim=-1)
                return F.cross_entropy(q @ d.T / 0.05, torch.arange(len(q)))
        """,
    ),
    "the Trainer is told that the loss is not scaled": (
        TOKENS,
        """
        class T(Trainer):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                self.loss_is_scaled_for_ga = False

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(inputs["input_ids"]).logits
                return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "the Trainer is given no count": (
        TOKENS,
        """
        class T(Trainer):
            def get_batch_samples(self, epoch_iterator, num_batches, device):
                batches, _ = super().get_batch_samples(epoch_iterator, num_batches, device)
                return batches, None

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(inputs["input_ids"]).logits
                return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "an abstract method": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                raise NotImplementedError
        """,
    ),
    "the Trainer of another library": (
        "import torch.nn.functional as F\nfrom mylib.engine import Trainer\n",
        """
        class T(Trainer):
            def compute_loss(self, model, inputs):
                logits = model(inputs["input_ids"])
                return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "divided by the number of steps by hand": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(inputs["input_ids"]).logits
                loss = F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
                return loss / self.args.gradient_accumulation_steps
        """,
    ),
    "only for versions without the count": (
        TOKENS,
        """
        from packaging import version

        class T(Trainer):
            if version.parse(transformers.__version__) < version.parse("4.46"):
                def compute_loss(self, model, inputs, return_outputs=False):
                    logits = model(inputs["input_ids"]).logits
                    return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "nothing of its own": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                '''Only a hook.'''
                return super().compute_loss(model, inputs, return_outputs)
        """,
    ),
    "a trl trainer that divides": (
        TOKENS,
        """
        class T(DPOTrainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(inputs["input_ids"]).logits
                return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "the loss of a model that nothing is known of": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                outputs = model(**inputs)
                loss = outputs.loss
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "a regression": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels")
                outputs = model(**inputs)
                loss = F.mse_loss(outputs.logits.view(-1), labels.view(-1))
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "the kwargs become inputs of the model": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
                inputs = {**inputs, **kwargs}
                outputs = model(**inputs)
                return (outputs.loss, outputs) if return_outputs else outputs.loss
        """,
    ),
    "a method that is out of sight": (
        TOKENS,
        """
        class T(SFTTrainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                loss, metrics = self.get_batch_loss_metrics(model, inputs)
                return (loss, metrics) if return_outputs else loss
        """,
    ),
    "an own training step that divides": (
        TOKENS,
        """
        class T(Trainer):
            def training_step(self, model, inputs, num_items_in_batch=None):
                loss = self.compute_loss(model, inputs) / 8
                self.accelerator.backward(loss)
                return loss.detach()

            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(inputs["input_ids"]).logits
                return F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100)
        """,
    ),
    "the label smoother of a row classifier": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                labels = inputs.pop("labels") if self.label_smoother is not None and "labels" in inputs else None
                outputs = model(**inputs)
                if labels is not None:
                    loss = self.label_smoother(outputs, labels)
                else:
                    loss = outputs["loss"] if isinstance(outputs, dict) else outputs[0]
                return (loss, outputs) if return_outputs else loss
        """,
    ),
    "an unpaired preference loss": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(input_ids=inputs["input_ids"]).logits[:, :-1]
                labels = inputs["labels"][:, 1:].clone()
                mask = labels != -100
                labels[labels == -100] = 0
                logp = torch.gather(logits.log_softmax(-1), 2, labels.unsqueeze(2)).squeeze(2)
                logp = (logp * mask).sum(-1)
                ratio = logp - inputs["ref_logp"]
                chosen = ratio[inputs["desirable"]]
                rejected = ratio[~inputs["desirable"]]
                losses = torch.cat((1 - F.sigmoid(0.1 * chosen), 1 - F.sigmoid(-0.1 * rejected)))
                return losses.mean()
        """,
    ),
    "odds of rows": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                c = self.logps(model, inputs["c"])
                r = self.logps(model, inputs["r"])
                log_odds = (c - r) - (torch.log1p(-torch.exp(c)) - torch.log1p(-torch.exp(r)))
                return -(c.mean() + 0.1 * F.logsigmoid(log_odds).mean())

            def logps(self, model, batch):
                lp = model(**batch).logits.log_softmax(-1)
                tok = lp.gather(-1, batch["labels"].unsqueeze(-1)).squeeze(-1)
                return (tok * batch["mask"]).sum(-1) / batch["mask"].sum(-1)
        """,
    ),
    "the distillation of a row classifier": (
        ROWS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                student = model(**inputs)
                with torch.no_grad():
                    teacher = self.teacher(**inputs)
                kd = nn.KLDivLoss(reduction="batchmean")(
                    F.log_softmax(student.logits / 2, dim=-1), F.softmax(teacher.logits / 2, dim=-1)
                )
                loss = 0.5 * student.loss + 0.5 * 4 * kd
                return (loss, student) if return_outputs else loss
        """,
    ),
    "a sum over rows": (
        TOKENS,
        """
        class T(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                logits = model(input_ids=inputs["input_ids"]).logits
                loss = F.cross_entropy(logits.flatten(0, 1), inputs["labels"].flatten(), reduction="sum")
                return loss / logits.size(0)
        """,
    ),
}


@pytest.mark.parametrize("name", REPORTED)
def test_reported(name: str) -> None:
    detail, head, body = REPORTED[name]
    source = head + textwrap.dedent(body)
    found = check(source)
    assert [(line, each.detail) for line, each in found] == [(def_line(source), detail)]
    assert found[0][1].evidence


@pytest.mark.parametrize("name", SILENT)
def test_silent(name: str) -> None:
    head, body = SILENT[name]
    assert check(head + textwrap.dedent(body)) == []


def test_a_hidden_loss_is_an_assumption() -> None:
    _, head, body = REPORTED["the first output of a causal model"]
    ((_, violation),) = check(head + textwrap.dedent(body))
    assert violation.confidence is Confidence.ASSUMED
    assert violation.assumptions


def test_a_switch_set_on_the_trainer_from_outside_is_seen() -> None:
    _, head, body = REPORTED["class weights"]
    source = head + textwrap.dedent(body) + "\n\ntrainer = T()\ntrainer.model_accepts_loss_kwargs = False\n"
    assert check(source) == []


@pytest.mark.parametrize(
    ("signature", "body", "how"),
    [
        ("self, model, inputs", "return model(inputs)", "missing"),
        ("self, model, inputs, *args", "return model(inputs, *args)", "missing"),
        ("self, model, inputs, num_items_in_batch=None", "return model(inputs)", "unused"),
        ("self, model, inputs, num_items_in_batch=None", "_ = num_items_in_batch; return model(inputs)", "unused"),
        ("self, model, inputs, num_items_in_batch=None", "return model(inputs) / num_items_in_batch", ""),
        ("self, model, inputs, **kwargs", "return model(inputs)", "swallowed"),
        ("self, model, inputs, **kwargs", "a = kwargs.get('alpha', 1); return a * model(inputs)", "swallowed"),
        ("self, model, inputs, **kwargs", "a = kwargs['alpha']; return a * model(inputs)", "swallowed"),
        ("self, model, inputs, **kwargs", "n = kwargs['num_items_in_batch']; return model(inputs) / n", ""),
        ("self, model, inputs, **kwargs", "return model(inputs, **kwargs)", ""),
        (
            "self, model, inputs, **kwargs",
            "kwargs.pop('num_items_in_batch', None); return model(inputs, **kwargs)",
            "swallowed",
        ),
        ("self, model, inputs, **kwargs", "n = kwargs.pop('num_items_in_batch', None); return model(inputs) / n", ""),
    ],
)
def test_how_the_count_is_ignored(signature: str, body: str, how: str) -> None:
    module = read_module(f"def compute_loss({signature}):\n    {body}\n", "trainer.py")
    (function,) = module.body
    assert isinstance(function, ir.Function)
    assert how_ignored(function) == how


@pytest.mark.parametrize(
    ("path", "answer"),
    [
        ("model(**=inputs).loss", True),
        ("model(**=inputs)[0]", True),
        ("model(input_ids=inputs['a'](b)).loss", True),
        ("super().compute_loss()[0]", True),
        ("super().compute_loss()", True),
        ("model(**=inputs)", False),
        ("model(**=inputs).logits.squeeze(-1)[0]", False),
        ("logsigmoid(model(x)[0])", False),
        ("T.get_batch_loss_metrics(model(x))[0]", False),
        ("model(**=inputs)['loss'] + T.args.l2 * [model.parameters()[i] ** 2.sum() ...].sum()", True),
        ("0.5 * model(**=inputs).loss", True),
        ("torch.stack([model(x).loss, model(y).loss])[0]", False),
        ("model(unclosed", False),
    ],
)
def test_the_loss_of_the_model_itself(path: str, answer: bool) -> None:
    assert is_model_loss(path, "model") is answer


@pytest.mark.parametrize(
    ("test", "silent"),
    [
        ("version.parse(transformers.__version__) < version.parse('4.46')", True),
        ("is_transformers_version('<', '4.46')", True),
        ("metadata.version('transformers') < '4.46'", True),
        ("torch.__version__ < '2'", False),
    ],
)
def test_a_check_of_the_installed_version(test: str, silent: bool) -> None:
    _, head, body = REPORTED["class weights"]
    source = head + textwrap.dedent(body) + f"\n\nif {test}:\n    T = None\n"
    assert (check(source) == []) is silent


def test_the_number_of_steps_is_read_off_the_arguments() -> None:
    _, head, body = REPORTED["class weights"]
    source = head + textwrap.dedent(body)
    for tail, steps in (("4", 4), ("1", None), ("k", None)):
        ((_, violation),) = check(f"{source}\n\nargs = TrainingArguments(gradient_accumulation_steps={tail})\n")
        assert violation.steps == steps


PLAIN_LOSS = "return F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())"
SUMMED = 'F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), reduction="sum")'


@pytest.mark.parametrize("call", ["Trainer(model, compute_loss_func=loss)", "T(compute_loss_func=partial(loss, x=1))"])
@pytest.mark.parametrize(
    ("parameters", "body", "detail"),
    [
        ("num_items_in_batch=None", PLAIN_LOSS, "function unused"),
        ("**kwargs", PLAIN_LOSS, "function swallowed"),
        ("**kwargs", "return ((outputs.logits - labels) ** 2).mean()", "function swallowed"),
        ("num_items_in_batch=None", f"return {SUMMED} / num_items_in_batch", ""),
        ("num_items_in_batch=None", f"return {SUMMED}", ""),
        ("num_items_in_batch=None", f"return {SUMMED} / (labels != -100).sum()", "function unused"),
        ("num_items_in_batch=None", f"return {SUMMED} / labels.size(0)", "function unused"),
        ("num_items_in_batch=None, x=1", f"{PLAIN_LOSS} / x", ""),  # it may be the number of steps
        ("**kwargs", "return token_loss(outputs, labels, **kwargs)", ""),
        ("smoothing=0.0", PLAIN_LOSS, ""),  # fails at its first call
    ],
)
def test_a_loss_function_given_to_a_trainer(call: str, parameters: str, body: str, detail: str) -> None:
    source = (
        f"{TOKENS}\nclass T(Trainer):\n    pass\n\ndef loss(outputs, labels, {parameters}):\n    {body}\n\n{call}\n"
    )
    found = check_loss_functions(read_module(source, "trainer.py"), load())
    assert [each.detail for each in found] == ([detail] if detail else [])


def test_a_loss_function_given_to_something_else_is_not_judged() -> None:
    source = f"{TOKENS}\ndef loss(outputs, labels, **kwargs):\n    {PLAIN_LOSS}\n\nmake(compute_loss_func=loss)\n"
    assert check_loss_functions(read_module(source, "trainer.py"), load()) == []


@pytest.mark.parametrize("base", ["from .base import Base", "from . import Base", "from project import Base"])
def test_a_base_of_another_file(base: str, tmp_path: Path) -> None:
    """Relative, re-exported by the package, and absolute."""
    package = tmp_path / "project"
    package.mkdir()
    (tmp_path / "pyproject.toml").write_text("")
    (package / "__init__.py").write_text("from .base import *\n")
    (package / "base.py").write_text("from transformers import Trainer\n\n\nclass Base(Trainer):\n    pass\n")
    _, _, body = REPORTED["a focal loss of the selected tokens"]
    source = TOKENS + base + textwrap.dedent(body).replace("(Trainer)", "(Base)")
    file = package / "train.py"
    file.write_text(source)
    module = read_module(source, str(file))
    assert check_trainers(module, load(), None) == []
    (violation,) = check_trainers(module, load(), open_project(tmp_path))
    assert module.syntax.span(violation.node).line == def_line(source)
    (package / "base.py").write_text(
        "from transformers import Trainer\n\n\nclass Base(Trainer):\n    model_accepts_loss_kwargs = False\n"
    )
    open_project.cache_clear()
    assert check_trainers(module, load(), open_project(tmp_path)) == []


@pytest.mark.parametrize(("flag", "expected"), [("", 0), (", ignore_index=-1", 1)])
def test_a_loss_helper_of_a_base_in_another_file(flag: str, expected: int, tmp_path: Path) -> None:
    """Its text is not in the checked file: labels may be one a row, and only what is certain is reported."""
    (tmp_path / "pyproject.toml").write_text("")
    (tmp_path / "base.py").write_text(
        "import torch.nn.functional as F\nfrom transformers import Trainer\n\n\nclass Base(Trainer):\n"
        "    def keep_loss(self, logits, labels):\n"
        "        self.kept = F.cross_entropy(logits.view(-1, self.k), labels.view(-1))\n"
    )
    source = (
        f"{TOKENS.replace('AutoModelForCausalLM, Seq2SeqTrainer, ', '')}from base import Base\n\n\nclass T(Base):\n"
        "    def compute_loss(self, model, inputs, num_items_in_batch=None):\n"
        "        labels = inputs.pop('labels')\n"
        "        logits = model(**inputs).logits\n"
        "        self.keep_loss(logits, labels)\n"
        f"        return F.cross_entropy(logits.flatten(0, 1), labels.flatten(){flag})\n"
    )
    file = tmp_path / "train.py"
    file.write_text(source)
    module = read_module(source, str(file))
    open_project.cache_clear()
    assert len(check_trainers(module, load(), open_project(tmp_path))) == expected
