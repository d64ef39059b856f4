# expect: nothing
# mechanism: a generator gives each window with its count of valid targets
import torch.nn.functional as F


def windows(loader, k):
    held, tokens = [], 0
    for batch in loader:
        held.append(batch)
        tokens += int(batch["labels"].ne(-100).sum())
        if len(held) == k:
            yield held, tokens
            held, tokens = [], 0
    if held:
        yield held, tokens


def train(model, loader, optimizer, k):
    for window, tokens in windows(loader, k):
        for batch in window:
            logits = model(batch["input_ids"])
            loss = F.cross_entropy(logits.transpose(1, 2), batch["labels"], reduction="sum")
            (loss / tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
