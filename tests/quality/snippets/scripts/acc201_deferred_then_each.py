# mechanism: the deferred recipe, but the clip is in the loop over microbatches
import torch
import torch.nn.functional as F


def train(model, stream, optimizer, accum, max_norm):
    for window in stream:
        tokens = 0
        for ids, labels in window:
            loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum")
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)  # expect: ACC201
            tokens += (labels != -100).sum().item()
        for p in model.parameters():
            if p.grad is not None:
                p.grad.div_(max(tokens, 1))
        optimizer.step()
        optimizer.zero_grad()
