# expect: nothing
# mechanism: FSDP2 synchronises on the last microbatch; fixed rows
import torch
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def train(model, bank, accum, updates):
    fully_shard(model)
    opt = torch.optim.AdamW(model.parameters())
    for _ in range(updates):
        for micro in range(accum):
            model.set_requires_gradient_sync(micro == accum - 1)
            x = bank[torch.randint(0, len(bank), (8,))]
            (F.mse_loss(model(x), x) / accum).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad()
