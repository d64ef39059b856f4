from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, is_symbolic, known_steps, plural, steps_name


class ZeroGradInsideWindow(Rule):
    """Gradients are cleared between the microbatches of one window.

    ## What it does
    Reports a `zero_grad()` (of the optimizer or the model) that runs between the first and the last backward of a
    window. It also reports `zero_grad()` of a prepared optimizer as the first statement inside
    `accelerator.accumulate`: its gate opens on the last microbatch, just before that one's backward.

    ## Why it is bad
    The update should be `g = sum_k S_k / sum_k n_k`. What is cleared is gone: only the microbatches after the last
    clearing reach the step. With 4 microbatches and a `zero_grad()` before each backward, the update is the last one's
    gradient divided by 4: three quarters of the data are computed for nothing, and the rest has a quarter of its
    weight.

    ## Exceptions
    Silent at the start of a window and after a step, for a prepared optimizer after its step inside `accumulate`, for
    `if i % accum == 0: optimizer.zero_grad()` on a window's first microbatch, for the clearing of another optimizer
    (GAN), of adversarial inner loops and of SAM's first pass.

    ## References
    - huggingface/accelerate#1299, huggingface/accelerate#1422, bytetriper/RAE#67
    - https://docs.pytorch.org/docs/stable/generated/torch.optim.Optimizer.zero_grad.html
    """

    code = "ACC302"
    name = "zero-grad-inside-window"
    clause = Clause.CLEARED_INSIDE
    summary = "gradients are cleared between the microbatches of one window"
    repair = Repair.MOVE
    repair_safety = (
        "Safe where the repaired loop is proved and executed: the call moves after the step. The update becomes "
        "larger, because it now holds all microbatches."
    )

    def message(self, violation: Violation) -> str:
        """`subject` is the clearing call; `lost` of `window` microbatches never reach the update."""
        call = call_name(violation, "zero_grad")
        text = f"{call} clears the gradients inside a window"
        if violation.lost > 0 and violation.window > violation.lost:
            lead = "" if known_steps(violation) else "e.g. "
            if is_symbolic(violation):
                lead = f"with {steps_name(violation)} = {violation.window}, "
            text += f": {lead}{violation.lost} of {plural(violation.window, 'microbatch')} never reach the update"
        else:
            text += ": what was accumulated never reaches the update"
        return text + "; clear after the step"

    def hint(self, violation: Violation) -> str:
        return "move zero_grad() directly after the optimizer step"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for _ in range(updates):
                    optimizer.zero_grad()
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    optimizer.step()
            """,
            "Cleared once, before the window.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for i in range(updates * accum):
                    if i % accum == 0:
                        optimizer.zero_grad()
                    pick = torch.randint(len(features), (8,))
                    (F.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
            """,
            "Cleared on the first microbatch of a window, before its backward.",
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
                        accelerator.backward(F.mse_loss(model(features[pick]), values[pick]))
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "After the step the prepared optimizer's gate clears what was applied.",
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
                        optimizer.zero_grad()  # <- here
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    optimizer.step()
            """,
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
                        optimizer.zero_grad()  # <- here
                        accelerator.backward(F.mse_loss(model(features[pick]), values[pick]))
                        optimizer.step()
            """,
            "The gate opens on the last microbatch, so this call wipes the three before it.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.criterion = torch.nn.MSELoss()

                def microbatch(self, x, y):
                    self.model.zero_grad()  # <- here
                    loss = self.criterion(self.model(x), y)
                    (loss / self.accum).backward()

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        self.microbatch(features[pick], values[pick])
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
            """,
            "`model.zero_grad()` in a method that runs for each microbatch.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, scaler, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    optimizer.zero_grad(set_to_none=True)  # <- here
                    scaler.scale(loss).backward()
                    if (i + 1) % accum == 0:
                        scaler.step(optimizer)
                        scaler.update()
            """,
            "The habit of a plain loop, kept after accumulation was added.",
        ),
    )
