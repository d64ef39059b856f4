# mechanism: every microbatch runs under no_sync, so the ranks never exchange gradients
import torch
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def fit(net, bank, rank, accum, updates):
    model = DDP(net, device_ids=[rank])
    opt = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(updates):
        with model.no_sync():  # expect: ACC308
            for _ in range(accum):
                x = bank[torch.randint(0, len(bank), (8,))].to(rank)
                (F.mse_loss(model(x), x) / accum).backward()
        opt.step()
        opt.zero_grad()
