# mechanism: the Trainer knows how many microbatches the window really has; its clip runs at the boundary only
import torch.nn.functional as F
from transformers import Trainer


class Current(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = F.mse_loss(model(inputs["x"]), inputs["y"]) / self.current_gradient_accumulation_steps
        self.accelerator.backward(loss)
        if self.accelerator.sync_gradients:
            self.accelerator.clip_grad_norm_(model.parameters(), 1.0)
        return loss.detach()


class Configured(Trainer):
    def training_step(self, model, inputs, num_items_in_batch=None):
        loss = F.mse_loss(model(inputs["x"]), inputs["y"]) / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)  # expect: ACC107
        self.accelerator.clip_grad_norm_(model.parameters(), 1.0)  # expect: ACC201
        return loss.detach()
