# mechanism: clip and clearing are guarded by the boundary, scaler.step and update are not
import torch
import torch.nn.functional as F


def go(net, bank, opt, scaler, accum, total):
    for i in range(total):
        x = bank[torch.randint(0, len(bank), (8,))]
        with torch.autocast("cuda", torch.float16):
            loss = F.mse_loss(net(x), x) / accum
        scaler.scale(loss).backward()
        boundary = (i + 1) % accum == 0
        scaler.step(opt)  # expect: ACC301
        scaler.update()  # expect: ACC307
        if boundary:
            opt.zero_grad(set_to_none=True)
