# expect: nothing
# mechanism: a sum over tokens divided by num_items_in_batch, the mean without it
import torch.nn.functional as F
from transformers import Trainer


class WeightedTokenTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        reduction = "mean" if num_items_in_batch is None else "sum"
        loss = F.cross_entropy(
            outputs.logits[:, :-1].flatten(0, 1), inputs["labels"][:, 1:].flatten(), reduction=reduction
        )
        if num_items_in_batch is not None:
            loss = loss / num_items_in_batch
        return (loss, outputs) if return_outputs else loss
