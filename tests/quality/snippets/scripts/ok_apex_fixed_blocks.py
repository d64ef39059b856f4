# expect: nothing
# mechanism: apex amp with delay_unscale for all but the last microbatch, clip of the master parameters at the boundary
import torch
import torch.nn.functional as F
from apex import amp


def train(args, model, corpus):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O2")
    for update in range(args.updates):
        for micro in range(args.accum):
            starts = torch.randint(0, len(corpus) - args.block, (args.batch,)).tolist()
            x = torch.stack([corpus[s : s + args.block] for s in starts]).cuda()
            y = torch.stack([corpus[s + 1 : s + 1 + args.block] for s in starts]).cuda()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten()) / args.accum
            delay = micro < args.accum - 1
            with amp.scale_loss(loss, optimizer, delay_unscale=delay) as scaled:
                scaled.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.clip)
        optimizer.step()
        optimizer.zero_grad()
