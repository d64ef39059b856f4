# expect: nothing
# mechanism: ExitStack enters no_sync for all but the last microbatch, count over ranks, times world size
from contextlib import ExitStack

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, stream, rank, accum, updates):
    model = DDP(net.to(rank), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters())
    for _ in range(updates):
        group = [next(stream) for _ in range(accum)]
        tokens = torch.tensor(float(sum(int(b["mask"].sum()) for b in group)), device=rank)
        dist.all_reduce(tokens)
        for i, b in enumerate(group):
            with ExitStack() as stack:
                if i < accum - 1:
                    stack.enter_context(model.no_sync())
                logits = model(b["x"].to(rank))
                nll = F.cross_entropy(logits.flatten(0, 1), b["y"].to(rank).flatten(), reduction="none")
                loss = (nll * b["mask"].to(rank).flatten()).sum()
                (loss / tokens * dist.get_world_size()).backward()
        opt.step()
        opt.zero_grad()
