# mechanism: unscale and clip once a microbatch
import torch
import torch.nn.functional as F


def fit(net, bank, opt, accum, total):
    scaler = torch.amp.GradScaler("cuda")
    for step in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(net(x), x) / accum
        scaler.scale(loss).backward()
        scaler.unscale_(opt)  # expect: ACC307
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # expect: ACC201
        if (step + 1) % accum == 0:
            scaler.step(opt)
            scaler.update()
            opt.zero_grad()
