"""One big batch goes through the model in slices."""

import torch.nn.functional as F


def train(model, batches, optimizer, micro=2):
    for ids, labels in batches:
        optimizer.zero_grad()
        starts = range(0, ids.size(0), micro)
        for start in starts:
            logits = model(ids[start : start + micro])
            target = labels[start : start + micro]
            loss = F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=-100)
            (loss / len(starts)).backward()  # expect: ACC101
        optimizer.step()
