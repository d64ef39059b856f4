"""Two heads, their losses in a dict, summed."""

import torch.nn.functional as F


def train_epoch(model, batches, optimizer, accumulate=4):
    model.train()
    optimizer.zero_grad()
    for index, batch in enumerate(batches):
        tags, scores = model(batch["ids"])
        losses = {
            "tagging": F.cross_entropy(tags.flatten(0, 1), batch["tags"].flatten(), ignore_index=-100),
            "score": F.mse_loss(scores, batch["score"]),
        }
        loss = sum(losses.values())
        (loss / accumulate).backward()  # expect: ACC101, ACC102, ACC107
        if (index + 1) % accumulate == 0 or index + 1 == len(batches):
            optimizer.step()
            optimizer.zero_grad()
