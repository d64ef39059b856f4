# mechanism: deferred normalisation without a flush: sums and counts of the rest are thrown away
import torch.nn.functional as F


def epoch(model, loader, optimizer, accum):
    tokens, held = 0, 0
    optimizer.zero_grad()
    for ids, labels in loader:
        F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum").backward()
        tokens += int((labels != -100).sum())
        held += 1
        if held == accum:  # expect: ACC304
            for p in model.parameters():
                p.grad.div_(tokens)
            optimizer.step()
            optimizer.zero_grad()
            tokens, held = 0, 0
