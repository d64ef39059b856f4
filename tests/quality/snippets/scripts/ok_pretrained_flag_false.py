# expect: nothing
# mechanism: accepts_loss_kwargs = False tells the Trainer to divide itself
from torch import nn
from transformers import PreTrainedModel


class Pooler(PreTrainedModel):
    accepts_loss_kwargs = False

    def __init__(self, config, body):
        super().__init__(config)
        self.body, self.head = body, nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids, labels=None, **kwargs):
        logits = self.head(self.body(input_ids, **kwargs)[0][:, 0])
        loss = nn.functional.cross_entropy(logits, labels) if labels is not None else None
        return {"loss": loss, "logits": logits}
