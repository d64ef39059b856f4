# mechanism: the context is inverted: only the last microbatch runs under no_sync
import contextlib

import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


class Loop:
    def __init__(self, net, bank, rank, accum):
        self.model = DDP(net.to(rank), device_ids=[rank])
        self.opt = torch.optim.AdamW(self.model.parameters())
        self.bank, self.accum = bank, accum

    def update(self):
        for i in range(self.accum):
            last = i == self.accum - 1
            context = self.model.no_sync() if last else contextlib.nullcontext()  # expect: ACC308
            with context:
                x = self.bank[torch.randint(0, len(self.bank), (8,))]
                (F.mse_loss(self.model(x), x) / self.accum).backward()
        self.opt.step()
        self.opt.zero_grad()
