# mechanism: num_items_in_batch is a parameter and only logged
import torch.nn as nn
import transformers


class SmoothedTrainer(transformers.Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):  # expect: ACC105
        if self.state.global_step % 50 == 0:
            self.log({"items": float(num_items_in_batch or 0)})
        outputs = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"])
        shift_logits = outputs.logits[..., :-1, :].contiguous()
        shift_labels = inputs["labels"][..., 1:].contiguous()
        loss_fct = nn.CrossEntropyLoss(label_smoothing=0.1)
        loss = loss_fct(shift_logits.view(-1, shift_logits.size(-1)), shift_labels.view(-1))
        return (loss, outputs) if return_outputs else loss
