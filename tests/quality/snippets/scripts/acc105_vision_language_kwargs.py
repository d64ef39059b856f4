# mechanism: a vision-language trainer builds its own shifted loss; **kwargs are never looked at
import torch
from transformers import Trainer


class VLTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, **kwargs):  # expect: ACC105
        pixel_values = inputs.pop("pixel_values")
        labels = inputs["labels"]
        outputs = model(pixel_values=pixel_values, input_ids=inputs["input_ids"])
        logits = outputs.logits[:, :-1].reshape(-1, outputs.logits.size(-1))
        targets = labels[:, 1:].reshape(-1)
        loss = torch.nn.functional.cross_entropy(logits.float(), targets, ignore_index=-100)
        return (loss, outputs) if return_outputs else loss
