# mechanism: Seq2SeqTrainer subclass, a focal loss over the valid tokens, no num_items_in_batch parameter
import torch.nn.functional as F
from transformers import Seq2SeqTrainer


class FocalSeq2SeqTrainer(Seq2SeqTrainer):
    gamma = 2.0

    def compute_loss(self, model, inputs, return_outputs=False):  # expect: ACC105
        outputs = model(**inputs)
        labels = inputs["labels"]
        valid = labels.ne(-100)
        logp = F.log_softmax(outputs.logits.float(), dim=-1)
        picked = logp.gather(-1, labels.clamp(min=0).unsqueeze(-1)).squeeze(-1)
        focal = -((1 - picked.exp()) ** self.gamma) * picked
        loss = (focal * valid).sum() / valid.sum()
        if return_outputs:
            return loss, outputs
        return loss
