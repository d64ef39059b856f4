"""What `accumlint verify` runs finetune.py with: a model, microbatches of different counts, how to count them."""

import torch
import torch.nn.functional as F

from finetune import IGNORED, Model


def microbatch(generator, answers):
    """Rows of 8 tokens; of row r, the last `answers[r]` are learnt."""
    tokens = torch.randint(50, (len(answers), 8), generator=generator)
    labels = torch.full_like(tokens, IGNORED)
    for row, length in enumerate(answers):
        if length:
            labels[row, -length:] = tokens[row, -length:]
    return tokens, labels


def loss_sum(model, batch):
    tokens, labels = batch
    return F.cross_entropy(model(tokens).flatten(0, 1), labels.flatten(), ignore_index=IGNORED, reduction="sum")


def factory():
    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    lengths = [(2, 1), (7, 8), (0, 0), (4, 1), (6, 3)]  # one without answers, and a window that is not full
    return {
        "model": Model(),
        "microbatches": [microbatch(generator, answers) for answers in lengths],
        "loss_sum": loss_sum,
        "count": lambda batch: int((batch[1] != IGNORED).sum()),
        "accumulation_steps": 2,
    }
