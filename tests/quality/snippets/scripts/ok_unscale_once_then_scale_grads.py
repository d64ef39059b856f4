# expect: nothing
# mechanism: deferred division after unscale_, then the clip, then step and update
import torch
import torch.nn.functional as F


def train(model, stream, opt, scaler, accum, updates):
    for _ in range(updates):
        n = 0
        for _ in range(accum):
            ids, labels = next(stream)
            with torch.autocast("cuda", dtype=torch.float16):
                logits = model(ids)
                loss = F.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="sum")
            scaler.scale(loss).backward()
            n += int((labels != -100).sum())
        scaler.unscale_(opt)
        for group in opt.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    p.grad.div_(max(n, 1))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
