"""What happens between boundaries stands in the `else`."""

import torch.nn.functional as F


def train(model, loader, optimizer, log, accum=4):
    seen = 0
    for i, (ids, labels) in enumerate(loader):
        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), ignore_index=-100)
        (loss / accum).backward()  # expect: ACC101
        if (i + 1) % accum == 0:  # expect: ACC304
            optimizer.step()
            optimizer.zero_grad()
            log(i, seen)
        else:
            seen += 1
