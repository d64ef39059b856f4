# mechanism: a classification head takes **kwargs and keeps the count of the Trainer to itself
import torch.nn as nn
from transformers import PreTrainedModel
from transformers.modeling_outputs import SequenceClassifierOutput


class PooledClassifier(PreTrainedModel):
    def __init__(self, config, backbone):
        super().__init__(config)
        self.backbone = backbone
        self.num_labels = config.num_labels
        self.head = nn.Linear(config.hidden_size, config.num_labels)

    def forward(self, input_ids=None, attention_mask=None, labels=None, **kwargs):  # expect: ACC108
        hidden = self.backbone(input_ids, attention_mask=attention_mask, **kwargs)[0]
        logits = self.head(hidden[:, 0])
        loss = None
        if labels is not None:
            loss = nn.CrossEntropyLoss()(logits.view(-1, self.num_labels), labels.view(-1))
        return SequenceClassifierOutput(loss=loss, logits=logits)
