# mechanism: both branches of the precision run their own backward: the fault is at both calls
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader


def train(net, data, args):
    loader = DataLoader(data, batch_size=args.batch_size)
    optimizer = torch.optim.AdamW(net.parameters())
    if args.fp16:
        scaler = torch.amp.GradScaler("cuda")
    for step, (x, y) in enumerate(loader):
        if args.fp16:
            with torch.autocast("cuda"):
                loss = F.cross_entropy(net(x), y)
        else:
            loss = F.cross_entropy(net(x), y)
        if args.n_gpu > 1:
            loss = loss.mean()
        if args.steps > 1:
            loss = loss / args.steps
        if args.fp16:
            scaler.scale(loss).backward()  # expect: ACC102
        else:
            loss.backward()  # expect: ACC102
        if (step + 1) % args.steps == 0:  # expect: ACC304
            if args.fp16:
                scaler.unscale_(optimizer)
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            if args.fp16:
                scaler.step(optimizer)
                scaler.update()
            else:
                optimizer.step()
            net.zero_grad()
