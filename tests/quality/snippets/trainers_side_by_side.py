# mechanism: a switch that one Trainer sets on itself says nothing of the others in its file
import torch.nn.functional as F
from transformers import Seq2SeqTrainer, Trainer


class Missing(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False):  # expect: ACC105
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = F.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        return (loss, out) if return_outputs else loss


class Swallowed(Seq2SeqTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):  # expect: ACC105
        labels = inputs.pop("labels")
        out = model(**inputs)
        mask = (labels != -100).float()
        per = F.cross_entropy(out.logits.transpose(1, 2), labels, reduction="none")
        loss = (per * mask).sum() / mask.sum()
        return (loss, out) if return_outputs else loss


class Forwarded(Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        return super().compute_loss(model, inputs, *args, **kwargs)


class Counted(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = F.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        loss = loss / num_items_in_batch
        return (loss, out) if return_outputs else loss


class Own(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = F.mse_loss(out.logits, labels)
        return (loss, out) if return_outputs else loss


class Step(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = F.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        self.accelerator.backward(loss)  # expect: ACC103
        return loss.detach()


class StepDivided(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        inputs = self._prepare_inputs(inputs)
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = F.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
        loss = loss / num_items_in_batch
        self.accelerator.backward(loss)
        return loss.detach()
