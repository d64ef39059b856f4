from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import known_steps, sampled_steps, steps_name


class UnscaledAccumulation(Rule):
    """Microbatch means are summed over the window without any division.

    ## What it does
    Reports a backward call whose loss is a microbatch mean, where neither the loop nor the framework divides by the
    number of microbatches, nor the gradient afterwards. The `training_step` of a Trainer subclass is read too: the
    Trainer gives Accelerate one accumulation step, so a method that replaces its own has to divide.

    ## Why it is bad
    `backward()` adds to `.grad`. The update should be `g = sum_k S_k / sum_k n_k`; without a division it is
    `sum_k S_k / n_k`, K times as large for equal counts. With 4 microbatches the effective learning rate is 4x the one
    that is set, a clip limit of 1.0 acts like 0.25, and both change whenever the accumulation is tuned to the memory.
    Adam hides the factor in its parameters but not in the clip. Where counts vary, the means are weighted wrongly too:
    2 targets with mean 3 and 5 with mean -1 give 2 instead of 1/7.

    ## Exceptions
    Silent for summed losses (dividing by the count elsewhere is right), for a division of `.grad`, for frameworks that
    divide (`accelerator.backward`, a DeepSpeed engine, Lightning's automatic optimization), for several loss terms of
    one batch, and where the reduction of the loss cannot be seen. It excludes ACC101 and ACC102 at the same call.

    ## References
    - karpathy/nanoGPT#168, verl-project/verl#436
    - Lightning-AI/pytorch-lightning#14527 (manual optimization and Fabric do not divide)
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "ACC103"
    name = "unscaled-accumulation"
    clause = Clause.NO_DIVISION
    summary = "microbatch means are summed over the window without any division"
    repair = Repair.DEFERRED
    repair_safety = (
        "The repaired update is the full-batch mean, K times smaller than before: proved and executed like every "
        "weighting repair. A learning rate that was tuned on the sum has to be raised by the same factor."
    )

    def message(self, violation: Violation) -> str:
        """`divisor` is the source's text of K; without it the window's size is only a sample."""
        known, name = known_steps(violation), steps_name(violation)
        if known > 1:
            return f"the gradients of {known} microbatches are summed without division: the update is {known}x the mean"
        sampled = sampled_steps(violation)
        example = f" (e.g. {sampled}x)" if sampled > 1 else ""
        if name:
            text = f"the gradients of {name} microbatches are summed without division"
            return f"{text}: the update is {name} times the mean{example}"
        text = "the gradients of the window's microbatches are summed without division"
        return f"{text}: the update grows with their number{example}"

    def hint(self, violation: Violation) -> str:
        return "divide once: the gradient by the window's valid targets, or each loss by the number of microbatches"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, tokens, optimizer, updates, accum=4, block=8):
                for _ in range(updates):
                    for _ in range(accum):
                        starts = torch.randint(len(tokens) - block - 1, (2,)).tolist()
                        rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                        (loss / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Equal counts: one division of every mean is the full-batch mean.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True)
                seen, last = 0, len(loader) - 1
                for i, (x, y) in enumerate(loader):
                    F.cross_entropy(model(x), y, reduction="sum").backward()
                    seen += len(y)
                    if (i + 1) % accum == 0 or i == last:
                        for p in model.parameters():
                            p.grad.div_(seen)
                        optimizer.step()
                        optimizer.zero_grad()
                        seen = 0
            """,
            "Sums are added; the gradient is divided by the examples at the boundary.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator


            def train(model, features, values, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * 4):
                    pick = torch.randint(len(features), (8,))
                    with accelerator.accumulate(model):
                        loss = F.mse_loss(model(features[pick]), values[pick])
                        accelerator.backward(loss)
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "`accelerator.backward` divides by `gradient_accumulation_steps` itself.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, tokens, optimizer, updates, accum=4, block=8):
                for _ in range(updates):
                    for _ in range(accum):
                        starts = torch.randint(len(tokens) - block - 1, (2,)).tolist()
                        rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                        loss.backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer):
                    self.model, self.optimizer = model, optimizer
                    self.criterion = torch.nn.MSELoss()

                def update(self, features, values, accum=4):
                    total = 0.0
                    for x, y in zip(features[:8].chunk(accum), values[:8].chunk(accum)):
                        loss = self.criterion(self.model(x), y)
                        loss.backward()  # <- here
                        loss = loss / accum
                        total += loss.item()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    return total
            """,
            "Dividing after `backward()` changes what is logged, not the gradient.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, scaler, updates, accum=4, device="cuda"):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    with torch.autocast(device, dtype=torch.float16):
                        loss = F.mse_loss(model(features[pick]), values[pick])
                    scaler.scale(loss).backward()  # <- here
                    if (i + 1) % accum == 0:
                        scaler.step(optimizer)
                        scaler.update()
                        optimizer.zero_grad(set_to_none=True)
            """,
            "The loss scale of mixed precision is undone before the step: it is no division.",
        ),
        example(
            """
            import torch.nn.functional as F
            from lightning.fabric import Fabric


            def train(model, optimizer, blocks, updates, accum=4):
                fabric = Fabric()
                model, optimizer = fabric.setup(model, optimizer)
                for _ in range(updates):
                    for k in range(accum):
                        rows = next(blocks)
                        with fabric.no_backward_sync(model, enabled=k < accum - 1):
                            loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                            fabric.backward(loss)  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Fabric does not divide, unlike Accelerate.",
        ),
    )
