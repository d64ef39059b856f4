# mechanism: apex amp.scale_loss, masked positions differ in number from microbatch to microbatch
import argparse

import torch
import torch.nn.functional as F
from apex import amp


def parse():
    parser = argparse.ArgumentParser()
    parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
    parser.add_argument("--max_grad_norm", type=float, default=1.0)
    parser.add_argument("--max_steps", type=int, default=1000)
    return parser.parse_args()


def mask_tokens(ids, mask_id, probability=0.15):
    labels = ids.clone()
    chosen = torch.bernoulli(torch.full(labels.shape, probability)).bool()
    labels[~chosen] = -100
    ids[chosen] = mask_id
    return ids, labels


def main(model, batches, mask_id):
    args = parse()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer = amp.initialize(model, optimizer, opt_level="O1")
    updates = 0
    while updates < args.max_steps:
        for _ in range(args.gradient_accumulation_steps):
            ids, labels = mask_tokens(next(batches), mask_id)
            logits = model(ids.cuda())
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), labels.cuda().view(-1))
            if args.gradient_accumulation_steps > 1:
                loss = loss / args.gradient_accumulation_steps
            with amp.scale_loss(loss, optimizer) as scaled_loss:
                scaled_loss.backward()  # expect: ACC101
        torch.nn.utils.clip_grad_norm_(amp.master_params(optimizer), args.max_grad_norm)
        optimizer.step()
        optimizer.zero_grad()
        updates += 1
