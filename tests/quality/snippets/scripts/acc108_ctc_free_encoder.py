# mechanism: masked language model head with `**kwargs` for the encoder, plain cross entropy
from torch import nn
from transformers import BertModel, BertPreTrainedModel
from transformers.modeling_outputs import MaskedLMOutput


class BertForSpans(BertPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.bert = BertModel(config)
        self.decoder = nn.Linear(config.hidden_size, config.vocab_size)
        self.post_init()

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):  # expect: ACC108
        outputs = self.bert(input_ids, attention_mask=attention_mask, **kwargs)
        scores = self.decoder(outputs[0])
        masked_lm_loss = None
        if labels is not None:
            loss_fct = nn.CrossEntropyLoss()
            masked_lm_loss = loss_fct(scores.view(-1, self.config.vocab_size), labels.view(-1))
        return MaskedLMOutput(loss=masked_lm_loss, logits=scores, hidden_states=outputs.hidden_states)
