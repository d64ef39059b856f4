# mechanism: the window's count is summed over the ranks, DDP averages the gradients: the world size is missing
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel


class Worker:
    def __init__(self, net, batches, rank, accum):
        self.model = DistributedDataParallel(net.to(rank), device_ids=[rank])
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.batches, self.rank, self.accum = batches, rank, accum

    def global_tokens(self, window):
        total = torch.tensor(sum(int((b["labels"] != -100).sum()) for b in window), device=self.rank)
        dist.all_reduce(total, op=dist.ReduceOp.SUM)
        return total

    def update(self):
        window = [next(self.batches) for _ in range(self.accum)]
        tokens = self.global_tokens(window)
        for batch in window:
            logits = self.model(batch["input_ids"].to(self.rank))
            loss = F.cross_entropy(
                logits.flatten(0, 1),
                batch["labels"].to(self.rank).flatten(),
                ignore_index=-100,
                reduction="sum",
            )
            (loss / tokens).backward()  # expect: ACC106
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.opt.step()
        self.opt.zero_grad(set_to_none=True)
