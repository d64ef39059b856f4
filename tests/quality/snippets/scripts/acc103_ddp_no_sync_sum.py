# mechanism: DDP with no_sync in order, but the means are added
import contextlib

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def train(net, bank, rank, accum, updates):
    model = DDP(net.to(rank), device_ids=[rank])
    opt = torch.optim.AdamW(model.parameters())
    for _ in range(updates):
        for k in range(accum):
            sync = contextlib.nullcontext() if k == accum - 1 else model.no_sync()
            with sync:
                x = bank[torch.randint(0, len(bank), (8,))].to(rank)
                F.mse_loss(model(x), x).backward()  # expect: ACC103
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
