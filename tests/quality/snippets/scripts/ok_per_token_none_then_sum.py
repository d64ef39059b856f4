# expect: nothing
# mechanism: reduction none, mask, sum, and the window's mask sum as the divisor
import torch
import torch.nn.functional as F


def update(model, optimizer, micro_batches, device):
    denominator = sum(mb["loss_mask"][:, 1:].sum() for mb in micro_batches).clamp(min=1.0).to(device)
    for mb in micro_batches:
        ids = mb["ids"].to(device)
        logits = model(ids[:, :-1])
        nll = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none")
        loss = (nll * mb["loss_mask"][:, 1:].to(device)).sum() / denominator
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
