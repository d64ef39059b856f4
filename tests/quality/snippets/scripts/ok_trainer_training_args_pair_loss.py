# expect: nothing
# mechanism: a contrastive pair loss of one value a row in a Trainer subclass
import torch.nn.functional as F
from transformers import Trainer


class PairTrainer(Trainer):
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        left = model(**inputs["left"]).pooler_output
        right = model(**inputs["right"]).pooler_output
        score = F.cosine_similarity(left, right)
        loss = F.mse_loss(score, inputs["score"])
        return (loss, {"score": score}) if return_outputs else loss
