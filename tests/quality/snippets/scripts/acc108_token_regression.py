# mechanism: a masked mean computed by hand from labels, the kwargs go to the encoder only
import torch
from transformers import PreTrainedModel


class RewardPerToken(PreTrainedModel):
    def __init__(self, config, encoder):
        super().__init__(config)
        self.encoder = encoder
        self.value = torch.nn.Linear(config.hidden_size, 1)

    def forward(self, input_ids, attention_mask, labels=None, **kwargs):  # expect: ACC108
        hidden = self.encoder(input_ids=input_ids, attention_mask=attention_mask, **kwargs).last_hidden_state
        values = self.value(hidden).squeeze(-1)
        if labels is None:
            return {"logits": values}
        mask = attention_mask.to(values.dtype)
        squared = (values - labels) ** 2
        loss = (squared * mask).sum() / mask.sum()
        return {"loss": loss, "logits": values}
