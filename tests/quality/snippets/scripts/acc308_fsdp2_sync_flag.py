# mechanism: FSDP2 synchronises on the first microbatch of the window, not on the last
import torch
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def train(model, bank, updates, accum):
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(updates):
        for micro in range(accum):
            model.set_requires_gradient_sync(micro == 0)  # expect: ACC308
            x = bank[torch.randint(0, len(bank), (8,))]
            (F.mse_loss(model(x), x) / accum).backward()
        opt.step()
        opt.zero_grad()
