# expect: nothing
# mechanism: one scaler, two optimizers: two unscale_ and one update
import torch
import torch.nn.functional as F


def train(enc, dec, bank, updates, accum):
    a = torch.optim.AdamW(enc.parameters(), lr=1e-4)
    b = torch.optim.AdamW(dec.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for _ in range(updates):
        for _ in range(accum):
            x = bank[torch.randint(0, len(bank), (8,))]
            with torch.autocast("cuda", dtype=torch.float16):
                loss = F.mse_loss(dec(enc(x)), x) / accum
            scaler.scale(loss).backward()
        scaler.unscale_(a)
        scaler.unscale_(b)
        torch.nn.utils.clip_grad_norm_([*enc.parameters(), *dec.parameters()], 1.0)
        scaler.step(a)
        scaler.step(b)
        scaler.update()
        a.zero_grad()
        b.zero_grad()
