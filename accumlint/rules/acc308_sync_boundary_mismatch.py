from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name


class SyncBoundaryMismatch(Rule):
    """Gradients are synchronised on another microbatch than the one before the step.

    ## What it does
    Reports the line that switches gradient synchronisation (`no_sync`, `require_backward_grad_sync`,
    `set_requires_gradient_sync`, Fabric's `no_backward_sync`) where the last microbatch before the step runs without
    it.

    ## Why it is bad
    The update should hold the microbatches of all ranks: `g = sum_r sum_k S_rk / sum_r sum_k n_rk`. DDP exchanges what
    is in `.grad` during a backward that synchronises. If that is the first microbatch of 4 and not the last, three
    quarters of each rank's gradient are never exchanged: every rank steps with its own gradient, the weights of the
    ranks drift apart, and nothing raises. One report measured a validation loss of 4.88 instead of 4.15 at step 1000.

    ## Exceptions
    Silent where the last microbatch of each window synchronises, where every microbatch does (slower, but right), and
    where the gradients are all-reduced by hand before the step.

    ## References
    - karpathy/build-nanogpt#30, modelscope/FunASR#3472
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.parallel.DistributedDataParallel.html (`no_sync`: the
      forward must be inside the context as well)
    """

    code = "ACC308"
    name = "sync-boundary-mismatch"
    clause = Clause.SYNC
    summary = "gradients are synchronised on another microbatch than the one before the step"
    repair = Repair.BOUNDARY
    repair_safety = (
        "Safe where two gloo ranks with unequal data confirm it: the test of the switch becomes the boundary's, or a "
        "switch that comes after the forward moves before it."
    )

    def message(self, violation: Violation) -> str:
        """`subject` is the call or the attribute that switches; K is `divisor`, where the source has it."""
        what = call_name(violation, "gradient synchronisation")
        return (
            f"{what} synchronises another microbatch than the last one before the step: what the ranks accumulate "
            "after it is not exchanged; synchronise on the boundary's microbatch"
        )

    def hint(self, violation: Violation) -> str:
        return "switch synchronisation on before the forward of the microbatch that steps, with the boundary's own test"

    good = (
        example(
            """
            import contextlib

            import torch
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, features, values, optimizer, rank, updates, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    last = (i + 1) % accum == 0
                    with contextlib.nullcontext() if last else model.no_sync():
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    if last:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "One test for both.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, features, values, optimizer, rank, updates, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                for _ in range(updates):
                    optimizer.zero_grad()
                    for k in range(accum):
                        model.require_backward_grad_sync = k == accum - 1
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
            """,
            "The flag is set before the forward of the last microbatch.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, features, values, optimizer, rank, updates, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Every microbatch synchronises: slower, but right.",
        ),
    )
    bad = (
        example(
            """
            import contextlib

            import torch
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, features, values, optimizer, rank, updates, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    with contextlib.nullcontext() if i % accum == 0 else model.no_sync():  # <- here
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from torch.nn.parallel import DistributedDataParallel as DDP


            def train(net, features, values, optimizer, rank, updates, accum=4):
                model = DDP(net.to(rank), device_ids=[rank])
                for _ in range(updates):
                    optimizer.zero_grad()
                    for k in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        model.require_backward_grad_sync = k == accum - 1  # <- here
                        loss.backward()
                    optimizer.step()
            """,
            "DDP reads the flag in the forward, which has already run.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from torch.distributed.fsdp import fully_shard


            def train(model, features, values, optimizer, updates, accum=4):
                fully_shard(model)
                for _ in range(updates):
                    for k in range(accum):
                        model.set_requires_gradient_sync(k == 0)  # <- here
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "FSDP: the first microbatch synchronises instead of the last.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from lightning.fabric import Fabric


            class Worker:
                def __init__(self, model, optimizer, accum=4):
                    self.fabric, self.accum = Fabric(devices=2), accum
                    self.model, self.optimizer = self.fabric.setup(model, optimizer)

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        with self.fabric.no_backward_sync(self.model, enabled=i % self.accum != 0):  # <- here
                            loss = F.mse_loss(self.model(features[pick]), values[pick])
                            self.fabric.backward(loss / self.accum)
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
                            self.optimizer.zero_grad()
            """,
            "Fabric: the same slip in the argument `enabled`.",
        ),
    )
