"""An endless iterator, windows by a nested loop; the loss has a reduction of its own."""

import torch
import torch.nn.functional as F


def train(model, iterator, optimizer, updates, micro=4):
    for _ in range(updates):
        logged = 0.0
        for _ in range(micro):
            batch = next(iterator)
            logits = model(batch["ids"])[:, :-1]
            labels = batch["ids"][:, 1:]
            mask = batch["mask"][:, 1:]
            token_loss = F.cross_entropy(logits.transpose(1, 2), labels, reduction="none")
            loss = (token_loss * mask).sum() / mask.sum().clamp(min=1)
            (loss / micro).backward()  # expect: ACC101
            logged += loss.item() / micro
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(f"loss {logged:.4f}")
