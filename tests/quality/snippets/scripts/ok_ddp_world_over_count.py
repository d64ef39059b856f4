# expect: nothing
# mechanism: deferred normalisation by world size over the all-reduced count
import torch
import torch.distributed as dist
from torch import nn


def scale(parameters, factor):
    for p in parameters:
        if p.grad is not None:
            p.grad *= factor


def fit(net, stream, device, accum, updates):
    model = nn.parallel.DistributedDataParallel(net.to(device))
    opt = torch.optim.AdamW(model.parameters())
    criterion = nn.CrossEntropyLoss(ignore_index=-100, reduction="sum")
    world = dist.get_world_size()
    for _ in range(updates):
        tokens = torch.zeros((), device=device)
        for _ in range(accum):
            ids, labels = next(stream)
            labels = labels.to(device)
            tokens += (labels != -100).sum()
            criterion(model(ids.to(device)).flatten(0, 1), labels.flatten()).backward()
        dist.all_reduce(tokens)
        scale(model.parameters(), world / tokens)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
