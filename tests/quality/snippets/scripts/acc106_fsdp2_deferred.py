# mechanism: fully_shard averages over the ranks, the gradients are divided by the all-reduced count alone
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def train(model, loader, device, accum, max_norm=1.0):
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    count = torch.zeros((), device=device)
    final = len(loader)
    for i, batch in enumerate(loader, 1):
        boundary = i % accum == 0 or i == final
        model.set_requires_gradient_sync(boundary)
        labels = batch["labels"].to(device)
        logits = model(batch["tokens"].to(device))
        count += (labels != -100).sum()
        F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten(), reduction="sum").backward()  # expect: ACC106
        if boundary:
            dist.all_reduce(count)
            for parameter in model.parameters():
                if parameter.grad is not None:
                    parameter.grad.div_(count)
            torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            optimizer.step()
            optimizer.zero_grad()
            count.zero_()
