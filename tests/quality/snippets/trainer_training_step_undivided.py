# mechanism: the HF Trainer sets Accelerate to one step, so a training_step that does not divide accumulates K times
import torch.nn.functional as F
from transformers import Trainer


class PairTrainer(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        model.train()
        chosen = model(**inputs["chosen"]).logits.mean(dim=(1, 2))
        rejected = model(**inputs["rejected"]).logits.mean(dim=(1, 2))
        losses = -F.logsigmoid(chosen - rejected)
        loss = losses.mean()
        self.accelerator.backward(loss)  # expect: ACC103
        return loss.detach() / self.args.gradient_accumulation_steps
