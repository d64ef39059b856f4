# expect: nothing
# mechanism: a loss function given to the Trainer is nobody's subclass: what divides by the count is right
from torch.nn import functional as F
from transformers import Trainer


def summed(outputs, labels, num_items_in_batch=None):
    loss = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    return loss / num_items_in_batch


def train(model, args, data):
    Trainer(model, args, train_dataset=data, compute_loss_func=summed).train()
