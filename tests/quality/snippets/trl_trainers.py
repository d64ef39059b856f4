# mechanism: a trainer of TRL is one of the Trainer's: its mean per token needs the count, a loss per pair does not
from torch.nn import functional as F
from trl import DPOTrainer, SFTTrainer


class Smoothed(SFTTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # expect: ACC105
        outputs = model(**inputs)
        loss = F.cross_entropy(
            outputs.logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100, label_smoothing=0.1
        )
        return (loss, outputs) if return_outputs else loss


class Counted(SFTTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        loss = F.cross_entropy(
            outputs.logits.flatten(0, 1), inputs["labels"].flatten(), ignore_index=-100, reduction="sum"
        )
        loss = loss / num_items_in_batch
        return (loss, outputs) if return_outputs else loss


class Pairs(DPOTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        chosen, rejected = self.margins(model, inputs)
        loss = -F.logsigmoid(self.beta * (chosen - rejected)).mean()
        return (loss, {}) if return_outputs else loss
