# mechanism: clip inside the scale_loss block's loop, once a microbatch, as older fine-tuning scripts have it
import torch
import torch.nn.functional as F
from apex import amp


def train(args, model, corpus):
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
    model, optimizer = amp.initialize(model, optimizer, opt_level=args.fp16_opt_level)
    model.zero_grad()
    for step in range(args.max_steps * args.gradient_accumulation_steps):
        starts = torch.randint(0, len(corpus) - args.block, (args.batch,)).tolist()
        x = torch.stack([corpus[s : s + args.block] for s in starts]).cuda()
        y = torch.stack([corpus[s + 1 : s + 1 + args.block] for s in starts]).cuda()
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss = loss / args.gradient_accumulation_steps
        with amp.scale_loss(loss, optimizer) as scaled_loss:
            scaled_loss.backward()
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)  # expect: ACC201
        if (step + 1) % args.gradient_accumulation_steps == 0:
            optimizer.step()
            model.zero_grad()
