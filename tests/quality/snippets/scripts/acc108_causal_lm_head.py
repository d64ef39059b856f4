# mechanism: a causal LM's forward swallows **loss_kwargs beside a mean cross entropy
import torch
import torch.nn.functional as F
from transformers.modeling_outputs import CausalLMOutputWithPast
from transformers.modeling_utils import PreTrainedModel


class TinyPreTrainedModel(PreTrainedModel):
    base_model_prefix = "model"


class TinyForCausalLM(TinyPreTrainedModel):
    def __init__(self, config):
        super().__init__(config)
        self.model = torch.nn.Embedding(config.vocab_size, config.hidden_size)
        self.lm_head = torch.nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()

    def forward(self, input_ids, labels=None, use_cache=False, **loss_kwargs):  # expect: ACC108
        logits = self.lm_head(self.model(input_ids)).float()
        loss = None
        if labels is not None:
            shifted = logits[:, :-1].reshape(-1, logits.size(-1))
            loss = F.cross_entropy(shifted, labels[:, 1:].reshape(-1), ignore_index=-100)
        return CausalLMOutputWithPast(loss=loss, logits=logits)
