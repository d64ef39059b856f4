# expect: nothing
# mechanism: compute_loss gives num_items_in_batch to super and adds nothing
from transformers import Trainer


class LoggingTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **kwargs)
        self.last_logits = outputs.logits.detach()
        return (loss, outputs) if return_outputs else loss
