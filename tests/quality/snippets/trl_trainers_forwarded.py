# mechanism: trainers of TRL hand the count on, or lose it
import torch.nn.functional as F
from trl import RewardTrainer, SFTTrainer
from trl.trainer.sft_trainer import SFTTrainer as Deep


class Forward(SFTTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        loss, out = super().compute_loss(model, inputs, return_outputs=True, num_items_in_batch=num_items_in_batch)
        self.log_it(out)
        return (loss, out) if return_outputs else loss


class Dropped(Deep):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # expect: ACC105
        out = model(**inputs)
        labels = inputs["labels"]
        loss = F.cross_entropy(out.logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten())
        return (loss, out) if return_outputs else loss


class Pair(RewardTrainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        good = model(inputs["chosen"]).logits
        bad = model(inputs["rejected"]).logits
        loss = -F.logsigmoid(good - bad).mean()
        return (loss, {}) if return_outputs else loss
