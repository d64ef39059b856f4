# expect: nothing
# mechanism: a pairwise reward loss has one value a pair, num_items_in_batch (tokens) is left out on purpose
import torch.nn.functional as F
from transformers import Trainer


class RewardTrainer(Trainer):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.model_accepts_loss_kwargs = False

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        chosen = model(inputs["chosen_ids"], attention_mask=inputs["chosen_mask"]).logits
        rejected = model(inputs["rejected_ids"], attention_mask=inputs["rejected_mask"]).logits
        loss = -F.logsigmoid(chosen - rejected).mean()
        if return_outputs:
            return loss, {"chosen": chosen, "rejected": rejected}
        return loss
