# mechanism: clip_grad_value_ in the boundary's branch, unscale_ was never called
import torch
import torch.nn.functional as F
from torch.amp import GradScaler, autocast


def loop(net, data, optimizer, args):
    scaler = GradScaler(enabled=args.amp)
    for it in range(args.iterations):
        rows = data[torch.randint(0, data.size(0), (args.batch,))]
        with autocast("cuda", enabled=args.amp):
            loss = F.mse_loss(net(rows), rows) / args.accum
        scaler.scale(loss).backward()
        if (it + 1) % args.accum == 0:
            torch.nn.utils.clip_grad_value_(net.parameters(), args.clip)  # expect: ACC202
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
