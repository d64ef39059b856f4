# expect: nothing
# mechanism: ReduceOp.SUM written out, times the world size
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def train(net, loader, local_rank, accum):
    ddp = DistributedDataParallel(net, device_ids=[local_rank])
    opt = torch.optim.AdamW(ddp.parameters())
    ce = nn.CrossEntropyLoss(ignore_index=-100, reduction="none")
    world_size = dist.get_world_size()
    it = iter(loader)
    finished = False
    while not finished:
        group = []
        for _ in range(accum):
            batch = next(it, None)
            if batch is None:
                finished = True
                break
            group.append(batch)
        if not group:
            break
        total = torch.zeros(1, device=local_rank)
        for batch in group:
            total += batch["labels"].ne(-100).sum().to(local_rank)
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        for batch in group:
            logits = ddp(batch["input_ids"].to(local_rank))
            per_token = ce(logits.flatten(0, 1), batch["labels"].to(local_rank).flatten())
            (per_token.sum() * world_size / total).backward()
        opt.step()
        opt.zero_grad()
