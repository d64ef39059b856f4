# mechanism: the scaler may be None; with it, the clip comes before unscale
import torch
import torch.nn.functional as F


def train(net, bank, opt, accum, total, use_amp=True):
    scaler = torch.cuda.amp.GradScaler(enabled=use_amp)
    for i in range(total):
        for j in range(accum):
            x = bank[torch.randint(0, len(bank), (4,))]
            with torch.cuda.amp.autocast(enabled=use_amp):
                loss = F.l1_loss(net(x), x)
            scaler.scale(loss / accum).backward()
        grad_norm = torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)  # expect: ACC202
        scaler.step(opt)
        scaler.update()
        opt.zero_grad()
        print(i, float(grad_norm))
