# expect: nothing
# mechanism: gradients are scaled by torch._foreach_mul_ once, by one over the tokens
import torch
import torch.nn.functional as F


def train(model, stream, opt, accum, updates):
    params = [p for p in model.parameters() if p.requires_grad]
    for _ in range(updates):
        n = 0
        for _ in range(accum):
            ids, labels = next(stream)
            F.cross_entropy(model(ids).transpose(1, 2), labels, reduction="sum").backward()
            n += labels.ne(-100).sum().item()
        torch._foreach_mul_([p.grad for p in params], 1.0 / max(n, 1))
        torch.nn.utils.clip_grad_norm_(params, 1.0)
        opt.step()
        opt.zero_grad()
