# mechanism: closures: the loss and the backward are nested functions of a factory
import torch
import torch.nn.functional as F


def make_trainer(model, optimizer, accumulate, pad):
    def compute(batch):
        logits = model(batch["src"])
        return F.cross_entropy(logits.flatten(0, 1), batch["tgt"].flatten(), ignore_index=pad)

    def micro(batch):
        loss = compute(batch) / accumulate
        loss.backward()  # expect: ACC101
        return loss.item()

    def update(stream):
        total = 0.0
        for _ in range(accumulate):
            total += micro(next(stream))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        return total

    return update
