# mechanism: warm-up per microbatch beside a cosine per update
import torch
import torch.nn.functional as F
from torch.optim.lr_scheduler import CosineAnnealingLR, LinearLR


def train(net, bank, accum, updates):
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3)
    warmup = LinearLR(opt, total_iters=100)
    cosine = CosineAnnealingLR(opt, updates)
    for _ in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            (F.mse_loss(net(x), x) / accum).backward()
            warmup.step()  # expect: ACC306
        opt.step()
        cosine.step()
        opt.zero_grad()
