# expect: nothing
# mechanism: no **kwargs in forward: the Trainer divides by its steps
from torch import nn
from transformers import PreTrainedModel


class Regressor(PreTrainedModel):
    def __init__(self, config, body):
        super().__init__(config)
        self.body, self.head = body, nn.Linear(config.hidden_size, 1)

    def forward(self, input_ids, attention_mask=None, labels=None):
        value = self.head(self.body(input_ids, attention_mask)[0][:, 0]).squeeze(-1)
        loss = None
        if labels is not None:
            loss = nn.functional.mse_loss(value, labels.float())
        return {"loss": loss, "logits": value}
