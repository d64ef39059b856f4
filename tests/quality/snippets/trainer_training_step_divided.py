# mechanism: Accelerate is told one step, so the division by hand is the only one
# expect: nothing
from accelerate import Accelerator
from accelerate.utils import GradientAccumulationPlugin
from transformers import TrainingArguments


class Loop:
    def __init__(self, args=None):
        self.args = args if args is not None else TrainingArguments("out")
        plugin = GradientAccumulationPlugin(num_steps=1)
        self.accelerator = Accelerator(gradient_accumulation_plugin=plugin)

    def training_step(self, model, inputs):
        loss = model(**inputs).loss
        loss = loss / self.args.gradient_accumulation_steps
        self.accelerator.backward(loss)
        return loss.detach()
