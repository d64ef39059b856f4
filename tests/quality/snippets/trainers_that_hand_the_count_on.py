# mechanism: compute_loss that weighs by the count, hands it to super or loses it
import torch.nn.functional as F
from transformers import Trainer


class Reads(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        labels = inputs.pop("labels")
        out = model(**inputs)
        loss = F.cross_entropy(out.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
        if num_items_in_batch is not None:
            loss = loss * (labels != -100).sum() / num_items_in_batch
        return (loss, out) if return_outputs else loss


class Super(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, out = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        loss = loss + 0.01 * self.penalty(model)
        return (loss, out) if return_outputs else loss


class Lost(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # expect: ACC105
        out = model(**inputs)
        labels = inputs["labels"]
        loss = F.cross_entropy(out.logits[..., :-1, :].flatten(0, 1), labels[..., 1:].flatten())
        return (loss, out) if return_outputs else loss


class Args(Trainer):
    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        return loss
