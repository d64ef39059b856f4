from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, steps_name


class SchedulerPerMicrobatch(Rule):
    """The learning rate schedule advances per microbatch while the optimizer steps per window.

    ## What it does
    Reports a scheduler step that runs for every microbatch of a loop whose optimizer steps once per window, where
    nothing gates it.

    ## Why it is bad
    A schedule is written in optimizer updates: `theta' = theta - lr_t * g`, one t for each `g = sum_k S_k / sum_k n_k`.
    Per microbatch it runs K times too fast: with 16 accumulation steps a warm-up of 16000 updates is over after 1000,
    and a cosine of 10000 updates reaches its end after 625, so that the rest of the training runs at the final rate.

    ## Exceptions
    Silent for a scheduler from `accelerator.prepare` inside `accumulate` (it steps only when the optimizer does), for a
    scheduler that steps once per epoch, for schedules that are given a position (`scheduler.step(epoch + i / n)`), and
    for a learning rate that is set by hand.

    ## References
    - Lightning-AI/pytorch-lightning#1476 (16000 to 1000), starVLA/starVLA#210, h2oai/h2o-llmstudio#663
    - https://docs.pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate
    """

    code = "ACC306"
    name = "scheduler-per-microbatch"
    clause = Clause.SCHEDULE
    summary = "the learning rate schedule advances per microbatch while the optimizer steps per window"
    repair = Repair.MOVE
    repair_safety = (
        "Unsafe: the gradient does not change, but the schedule does. Its length may have been written in microbatches "
        "on purpose, so the total must be looked at together with the move."
    )

    def message(self, violation: Violation) -> str:
        """`subject` is the scheduler step; `times` is not told: the last one of a window may stand after its step."""
        call = call_name(violation, "the scheduler step")
        name = steps_name(violation)
        if not name:
            return (
                f"{call} runs for every microbatch, the optimizer steps once per window: the schedule ends too early; "
                "step it after the optimizer"
            )
        return (
            f"{call} runs {name} times per optimizer step: the schedule ends {name} times too early; step it after the "
            "optimizer"
        )

    def hint(self, violation: Violation) -> str:
        return "move the scheduler step after the optimizer step (or pass the scheduler to accelerator.prepare)"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, scheduler, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
                    scheduler.step()
                    optimizer.zero_grad()
            """,
            "One position of the schedule for each update.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator


            def train(model, features, values, optimizer, scheduler, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4)
                model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
                for _ in range(updates * 4):
                    pick = torch.randint(len(features), (8,))
                    with accelerator.accumulate(model):
                        accelerator.backward(F.mse_loss(model(features[pick]), values[pick]))
                        optimizer.step()
                        scheduler.step()
                        optimizer.zero_grad()
            """,
            "A prepared scheduler waits for the optimizer.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, scheduler, epochs, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                usable = len(loader) // accum * accum
                for _ in range(epochs):
                    for i, (x, y) in enumerate(loader):
                        if i >= usable:
                            break
                        (F.cross_entropy(model(x), y) / accum).backward()
                        if (i + 1) % accum == 0:
                            optimizer.step()
                            optimizer.zero_grad()
                    scheduler.step()
            """,
            "A schedule in epochs.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, scheduler, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                        scheduler.step()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator
            from transformers import get_cosine_schedule_with_warmup


            def train(model, features, values, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4)
                lr_scheduler = get_cosine_schedule_with_warmup(optimizer, 100, updates)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * 4):
                    pick = torch.randint(len(features), (8,))
                    with accelerator.accumulate(model):
                        accelerator.backward(F.mse_loss(model(features[pick]), values[pick]))
                        optimizer.step()
                        lr_scheduler.step()  # <- here
                        optimizer.zero_grad()
            """,
            "The scheduler was not prepared, so nothing gates it.",
        ),
        example(
            """
            import torch
            from torch.optim.lr_scheduler import LambdaLR


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.schedule = LambdaLR(optimizer, lambda t: 1 / (1 + t))
                    self.criterion = torch.nn.MSELoss()

                def microbatch(self, x, y):
                    (self.criterion(self.model(x), y) / self.accum).backward()
                    self.schedule.step()  # <- here

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        self.microbatch(features[pick], values[pick])
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
                            self.optimizer.zero_grad()
            """,
            "The schedule sits in the method of the microbatch.",
        ),
        example(
            """
            import torch.nn.functional as F


            def finetune(model, loader, optimizer, scaler, scheduler, accum=4):
                count, last = 0, len(loader) - 1
                for i, (ids, labels) in enumerate(loader):
                    logits = model(ids).flatten(0, 1)
                    loss = F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum")
                    scaler.scale(loss).backward()
                    count += int((labels != -100).sum())
                    if (i + 1) % accum == 0 or i == last:
                        scaler.unscale_(optimizer)
                        for p in model.parameters():
                            p.grad /= max(count, 1)
                        scaler.step(optimizer)
                        scaler.update()
                        optimizer.zero_grad()
                        count = 0
                    scheduler.step()  # <- here
            """,
            "One level too far left: outside the boundary.",
        ),
    )
