from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, steps_name


class GradientsNeverCleared(Rule):
    """The gradients of a finished window leak into the next one.

    ## What it does
    Reports an optimizer step after which nothing clears the gradients before the next window's first backward.

    ## Why it is bad
    `backward()` adds. The second update should be `g = sum_k S_k / sum_k n_k` over its own window; it is the sum of
    both windows, the tenth that of all ten. Old gradients, from weights that are long gone, outweigh the new ones 9 to
    1, and the effective learning rate grows with every update until training diverges.

    ## Exceptions
    Silent where anything clears: `optimizer.zero_grad()` or `model.zero_grad()`, before or after the window,
    `p.grad = None`, an engine that clears in its own step (DeepSpeed), or gradients from `torch.autograd.grad`, which
    never add.

    ## References
    - https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "ACC303"
    name = "gradients-never-cleared"
    clause = Clause.NEVER_CLEARED
    summary = "the gradients of a finished window leak into the next"
    repair = Repair.CLEAR
    repair_safety = (
        "Safe where the repaired loop is proved and executed and the optimizer is in sight: `zero_grad()` is inserted "
        "after the step. Unsafe where the caller could clear: the function is then one whole window."
    )

    def message(self, violation: Violation) -> str:
        """`subject` is the step call; K is `divisor`, where the source has it."""
        call = call_name(violation, "the optimizer step")
        held = f" of {steps_name(violation)} microbatches" if steps_name(violation) else ""
        return (
            f"nothing clears the gradients after {call}: every window{held} also applies all earlier ones; call "
            "zero_grad() after the step"
        )

    def hint(self, violation: Violation) -> str:
        return "call optimizer.zero_grad() after the step"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Cleared after the step.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for _ in range(updates):
                    for p in model.parameters():
                        p.grad = None
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
            """,
            "`p.grad = None` clears as well.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.criterion = torch.nn.MSELoss()

                def apply(self):
                    self.optimizer.step()
                    self.model.zero_grad(set_to_none=True)

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        (self.criterion(self.model(features[pick]), values[pick]) / self.accum).backward()
                        if (i + 1) % self.accum == 0:
                            self.apply()
            """,
            "`model.zero_grad()` in a helper.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    optimizer.step()  # <- here
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, scaler, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    scaler.scale(loss).backward()
                    if (i + 1) % accum == 0:
                        scaler.unscale_(optimizer)
                        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                        scaler.step(optimizer)  # <- here
                        scaler.update()
            """,
            "Mixed precision: the leak is divided by the loss scale, and whole where scaling is off.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.criterion = torch.nn.MSELoss()
                    self.optimizer.zero_grad()

                def apply(self):
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.1)
                    self.optimizer.step()  # <- here

                def fit(self, features, values, updates):
                    pending = 0
                    for _ in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        (self.criterion(self.model(features[pick]), values[pick]) / self.accum).backward()
                        pending += 1
                        if pending == self.accum:
                            self.apply()
                            pending = 0
            """,
            "Cleared once, when the trainer is built, and never again.",
        ),
    )
