# expect: nothing
# mechanism: the count is averaged over the ranks, which is the sum over the world size
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def run(net, loader, rank, accum):
    model = DDP(net.to(rank), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters())
    count = torch.zeros((), device=rank)
    n = len(loader)
    for i, (ids, labels) in enumerate(loader):
        last = (i + 1) % accum == 0 or i + 1 == n
        model.require_backward_grad_sync = last
        logits = model(ids.to(rank))
        F.cross_entropy(logits.flatten(0, 1), labels.to(rank).flatten(), reduction="sum").backward()
        count += labels.ne(-100).sum().to(rank)
        if last:
            dist.all_reduce(count, op=dist.ReduceOp.AVG)
            for p in model.parameters():
                p.grad.div_(count)
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            opt.zero_grad()
            count.zero_()
