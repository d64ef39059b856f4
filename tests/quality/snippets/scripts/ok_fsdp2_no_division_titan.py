# expect: nothing
# mechanism: FSDP2's own division is switched off, so the sum over the global count needs no world size
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import fully_shard


def parallelize(model):
    for block in model.blocks:
        fully_shard(block)
        block.set_gradient_divide_factor(1.0)
    fully_shard(model)
    model.set_gradient_divide_factor(1.0)
    return model


def train_step(model, optimizer, batches, accum, device):
    micro = [next(batches) for _ in range(accum)]
    local = sum((labels != -100).sum() for _, labels in micro).to(device)
    dist.all_reduce(local)
    for ids, labels in micro:
        logits = model(ids.to(device))
        loss = F.cross_entropy(logits.flatten(0, 1), labels.to(device).flatten(), reduction="sum") / local
        loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def main(model, batches, accum, device, steps):
    model = parallelize(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for _ in range(steps):
        train_step(model, optimizer, batches, accum, device)
