# mechanism: each rank divides by the tokens of its own window although DDP averages over the ranks
from itertools import islice

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def fit(net, loader, local_rank, accum):
    ddp = DDP(net.cuda(local_rank), device_ids=[local_rank])
    opt = torch.optim.AdamW(ddp.parameters(), lr=1e-4)
    source = iter(loader)
    while True:
        group = list(islice(source, accum))
        if not group:
            break
        tokens = sum(int(batch["labels"].ne(-100).sum()) for batch in group)
        for batch in group:
            out = ddp(batch["input_ids"].cuda(local_rank))
            nll = F.cross_entropy(out.flatten(0, 1), batch["labels"].cuda(local_rank).flatten(), reduction="sum")
            loss = nll / max(tokens, 1)
            loss.backward()  # expect: ACC106
        opt.step()
        opt.zero_grad()
