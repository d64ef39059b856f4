# mechanism: scaler.update() belongs behind the window, here it moves the scale in the middle of it
import torch
import torch.nn.functional as F


def step(net, opt, scaler, bank, accum):
    for _ in range(accum):
        x = bank[torch.randint(0, len(bank), (8,))]
        with torch.autocast("cuda", dtype=torch.float16):
            loss = F.mse_loss(net(x), x) / accum
        scaler.scale(loss).backward()
        scaler.update()  # expect: ACC307
    scaler.step(opt)
    opt.zero_grad()
