from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import because, number, share


class MissingWorldSize(Rule):
    """Divided by the global count although DDP or FSDP averages gradients over the ranks.

    ## What it does
    Reports a backward call whose loss (or whose gradient, later) is divided by an all-reduced count without being
    multiplied by the world size.

    ## Why it is bad
    With W ranks the update should be `g = sum_r sum_k S_rk / sum_r sum_k n_rk`. DDP and FSDP do not add gradients over
    the ranks: they average them, which divides by W. Together with a division by the global count the update is 1/W of
    what it should be: 1/8 on 8 GPUs, and a run on another number of GPUs is another run. A rank's own count instead of
    the global one is wrong too: a rank with 200 valid targets then counts as much as one with 500, so each of its
    targets weighs 2.5x. It is reported where the code itself wraps the model and valid targets are seen to vary.

    ## Exceptions
    Silent for `loss * world_size / count`, for a gradient multiplied by `world_size / count`, for FSDP with its own
    division switched off (`set_gradient_divide_factor(1.0)`), and where nothing averages over ranks.

    ## References
    - meta-pytorch/torchtune#2172, huggingface/transformers#34373
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html
    - https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation (variable-size training samples)
    """

    code = "ACC106"
    name = "missing-world-size"
    clause = Clause.WORLD_SIZE
    summary = "divided by the global count although DDP or FSDP averages gradients over the ranks"
    repair = Repair.RANKS
    repair_safety = (
        "Safe where two gloo ranks with unequal counts confirm it. What the count is reduced over is taken to be what "
        "the gradients are averaged over; a model in a process group of its own is not repaired."
    )

    def message(self, violation: Violation) -> str:
        """`detail` is `local` for a rank's own count, else the missing factor is meant."""
        if violation.detail == "local":
            text = "a rank's own count is used as if it were the count of all ranks"
            text += ": every rank weighs the same, whatever its valid targets"
            return f"{text}{because(violation)}; all-reduce the count"
        text = "divided by the count of all ranks although gradients are averaged over the ranks"
        ratio = share(violation)
        if ratio and ratio < 1:
            text += f": the update is 1/world_size of what it should be (e.g. {number(ratio)})"
        else:
            text += ": the update is 1/world_size of what it should be"
        return text + "; multiply by the world size"

    def hint(self, violation: Violation) -> str:
        if violation.detail == "local":
            return "all_reduce the count and multiply the loss by the world size"
        return "multiply the loss (or the gradient's factor) by dist.get_world_size()"

    good = (
        example(
            """
            from itertools import islice

            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, loader, optimizer, rank, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                stream = iter(loader)
                while window := list(islice(stream, accum)):
                    total = sum((labels != -100).sum() for _, labels in window).to(rank)
                    dist.all_reduce(total)
                    for ids, labels in window:
                        logits = model(ids.to(rank)).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.to(rank).flatten(), reduction="sum")
                        (loss * dist.get_world_size() / total).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "The factor `world_size` undoes the average over the ranks.",
        ),
        example(
            """
            import torch
            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.distributed.fsdp import fully_shard


            def train(model, windows, optimizer):
                fully_shard(model)
                model.set_gradient_divide_factor(1.0)
                for window in windows:
                    total = torch.stack([(labels != -100).sum() for _, labels in window]).sum()
                    dist.all_reduce(total)
                    for ids, labels in window:
                        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum")
                        (loss / total).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "FSDP's own division is switched off: gradients are added over the ranks.",
        ),
        example(
            """
            import torch.nn.functional as F


            def train(model, windows, optimizer):
                for window in windows:
                    total = max(sum(int((labels != -100).sum()) for _, labels in window), 1)
                    for ids, labels in window:
                        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum")
                        (loss / total).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "One process: nothing averages.",
        ),
    )
    bad = (
        example(
            """
            from itertools import islice

            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, loader, optimizer, rank, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                stream = iter(loader)
                while window := list(islice(stream, accum)):
                    total = sum((labels != -100).sum() for _, labels in window).to(rank)
                    dist.all_reduce(total)
                    for ids, labels in window:
                        logits = model(ids.to(rank)).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.to(rank).flatten(), reduction="sum")
                        (loss / total).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.distributed.fsdp import fully_shard


            def finetune(model, stream, optimizer, updates, accum=4):
                fully_shard(model)
                for _ in range(updates):
                    count = torch.zeros((), device="cuda")
                    for _ in range(accum):
                        ids, labels = next(stream)
                        logits = model(ids).flatten(0, 1)
                        F.cross_entropy(logits, labels.flatten(), reduction="sum").backward()  # <- here
                        count += (labels != -100).sum()
                    dist.all_reduce(count)
                    for p in model.parameters():
                        p.grad.div_(count)
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Deferred: the gradient is divided by the global count, but FSDP has already averaged it.",
        ),
        example(
            """
            import torch
            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel


            class Worker:
                def __init__(self, net, optimizer, rank, accum=4):
                    self.model = DistributedDataParallel(net.to(rank), device_ids=[rank])
                    self.optimizer, self.rank, self.accum = optimizer, rank, accum

                def apply(self, count):
                    dist.all_reduce(count)
                    for p in self.model.parameters():
                        p.grad /= count
                    self.optimizer.step()
                    self.optimizer.zero_grad()

                def window(self, stream):
                    count = torch.zeros((), device=self.rank)
                    for _ in range(self.accum):
                        ids, labels = next(stream)
                        labels = labels.to(self.rank).flatten()
                        logits = self.model(ids.to(self.rank)).flatten(0, 1)
                        F.cross_entropy(logits, labels, ignore_index=-100, reduction="sum").backward()  # <- here
                        count += (labels != -100).sum()
                    self.apply(count)
            """,
            "In a class, with the division in a helper.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel


            def train(net, stream, optimizer, rank, updates, accum=4):
                model = DistributedDataParallel(net.to(rank), device_ids=[rank])
                for _ in range(updates):
                    window = [next(stream) for _ in range(accum)]
                    local = sum((labels != -100).sum() for _, labels in window)
                    for ids, labels in window:
                        logits = model(ids.to(rank)).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.to(rank).flatten(), reduction="sum")
                        (loss / local).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "A rank's own count: the ranks weigh the same, whatever their valid targets.",
        ),
        example(
            """
            import torch.distributed as dist
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, windows, optimizer, rank):
                model = DDP(net.to(rank), device_ids=[rank])
                for window in windows:
                    total = sum((labels != -100).sum() for _, labels in window).to(rank)
                    dist.all_reduce(total)
                    for ids, labels in window:
                        logits = model(ids.to(rank)).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.to(rank).flatten(), reduction="sum")
                        (loss / total).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Windows that the caller hands in.",
        ),
    )
