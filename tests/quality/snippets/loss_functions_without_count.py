# mechanism: a Trainer with a loss function divides nowhere: a mean of any kind is summed, also one that is written out
import functools
import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import Trainer, TrainingArguments


def mean(outputs, labels, num_items_in_batch=None):  # expect: ACC105
    return F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)


def own_mean(outputs, labels, num_items_in_batch=None):  # expect: ACC105
    mask = (labels != -100).float()
    per = F.cross_entropy(outputs.logits.transpose(1, 2), labels, reduction="none")
    return (per * mask).sum() / mask.sum()


def own_rows(outputs, labels, num_items_in_batch=None):  # expect: ACC105
    per = F.cross_entropy(outputs.logits, labels, reduction="none")
    return per.mean()


def summed(outputs, labels, num_items_in_batch=None):
    return F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")


def sum_by_own(outputs, labels, num_items_in_batch=None):  # expect: ACC105
    loss = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    return loss / (labels != -100).sum()


def sum_by_size(outputs, labels, **kwargs):  # expect: ACC105
    loss = F.cross_entropy(outputs.logits, labels, reduction="sum")
    return loss / labels.size(0)


def criterion(outputs, labels, num_items_in_batch=None):  # expect: ACC105
    loss_fct = nn.CrossEntropyLoss(weight=torch.tensor([1.0, 2.0]))
    return loss_fct(outputs.logits.view(-1, 2), labels.view(-1))


def right(outputs, labels, num_items_in_batch=None):
    loss = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction="sum")
    return loss / num_items_in_batch if num_items_in_batch is not None else loss / (labels != -100).sum()


def right_reduction(outputs, labels, num_items_in_batch=None):
    reduction = "sum" if num_items_in_batch is not None else "mean"
    loss = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100, reduction=reduction)
    if reduction == "sum":
        loss = loss / num_items_in_batch
    return loss


def mean_by_count(outputs, labels, num_items_in_batch=None):
    loss = F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100)
    return loss / num_items_in_batch


def steps_by_hand(outputs, labels, num_items_in_batch=None, steps=1):
    return F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten(), ignore_index=-100) / steps


class Focal:  # calls
    def __call__(self, outputs, labels, num_items_in_batch=None):  # expect: ACC105
        return F.cross_entropy(outputs.logits.flatten(0, 1), labels.flatten())


def train(model, data):
    args = TrainingArguments("out", gradient_accumulation_steps=8)
    Trainer(model, args, compute_loss_func=mean)
    Trainer(model, args, compute_loss_func=own_mean)
    Trainer(model, args, compute_loss_func=own_rows)
    Trainer(model, args, compute_loss_func=summed)
    Trainer(model, args, compute_loss_func=sum_by_own)
    Trainer(model, args, compute_loss_func=sum_by_size)
    Trainer(model, args, compute_loss_func=criterion)
    Trainer(model, args, compute_loss_func=right)
    Trainer(model, args, compute_loss_func=right_reduction)
    Trainer(model, args, compute_loss_func=mean_by_count)
    Trainer(model, args, compute_loss_func=functools.partial(steps_by_hand, steps=8))
    Trainer(model, args, compute_loss_func=Focal())
