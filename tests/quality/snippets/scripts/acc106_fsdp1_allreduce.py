# mechanism: FSDP (1) averages over the ranks; the loss is the sum over the all-reduced count
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP


def run(net, stream, accum, updates):
    model = FSDP(net)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for _ in range(updates):
        batches = [next(stream) for _ in range(accum)]
        n_valid = torch.stack([(b["labels"] != -100).sum() for b in batches]).sum().cuda()
        dist.all_reduce(n_valid)
        for b in batches:
            logits = model(b["input_ids"].cuda())
            loss = F.cross_entropy(logits.flatten(0, 1), b["labels"].cuda().flatten(), reduction="sum") / n_valid
            loss.backward()  # expect: ACC106
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
