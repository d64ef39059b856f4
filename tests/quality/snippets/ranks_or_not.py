# mechanism: the count is reduced, and the world size multiplied, only with several ranks
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, stream, updates, accum=4, distributed=False):  # expect: nothing
    model = DDP(net) if distributed else net
    opt = torch.optim.AdamW(model.parameters())
    world = dist.get_world_size() if distributed else 1
    for _ in range(updates):
        window = [next(stream) for _ in range(accum)]
        n = sum((y != -100).sum() for _, y in window)
        if distributed:
            dist.all_reduce(n)
        for x, y in window:
            (F.cross_entropy(model(x).flatten(0, 1), y.flatten(), reduction="sum") * world / n).backward()
        opt.step()
        opt.zero_grad()
