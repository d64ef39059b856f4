from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import is_symbolic, known_steps, number, share, steps_name


class DoubleScaledLoss(Rule):
    """The loss is divided by the number of steps twice.

    ## What it does
    Reports a manual division by the number of accumulation steps where the framework divides as well
    (`accelerator.backward`, a DeepSpeed engine, Lightning's automatic optimization), or where the code divides twice.

    ## Why it is bad
    The update should be `g = sum_k S_k / sum_k n_k`. Two divisions make it K times too small: with K = 8 a learning
    rate of 1e-4 acts like 1.25e-5 under SGD, the gradient never reaches the clip limit, and under fp16 small gradients
    round to zero. Adam hides it until epsilon matters. The logged loss is too small by the same factor.

    ## Exceptions
    Fabric, plain torch and Lightning's manual optimization do not divide: there one manual division is right. So it is
    with an `Accelerator()` that knows no number of steps, and with `engine.backward(loss, scale_wrt_gas=False)`.

    ## References
    - huggingface/accelerate#1773, huggingface/accelerate#3533, huggingface/transformers#35808 (DeepSpeed)
    - https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
    - https://lightning.ai/docs/pytorch/stable/common/optimization.html
    """

    code = "ACC104"
    name = "double-scaled-loss"
    clause = Clause.DIVIDED_TWICE
    summary = "the loss is divided by the number of steps twice"
    repair = Repair.DELETE
    repair_safety = (
        "Safe where the repaired loop is proved: only the manual division goes. The update becomes K times larger, as "
        "configured; a learning rate that was raised to make up for it has to come down."
    )

    def message(self, violation: Violation) -> str:
        """`detail` says who divides as well: `framework` or `by hand`."""
        name = steps_name(violation) or "the number of steps"
        again = {"framework": " by the framework", "by hand": " by hand"}.get(violation.detail, "")
        text = f"divided by {name} here and once more{again}"
        ratio = share(violation)
        size = f"{number(ratio)} of what it should be" if ratio and ratio < 1 else ""
        if size and known_steps(violation):
            return f"{text}: the update is {size}; divide once"
        factor = f"{name} times too small" if is_symbolic(violation) else "too small by that factor"
        return f"{text}: the update is {factor}{f' (e.g. {size})' if size else ''}; divide once"

    def hint(self, violation: Violation) -> str:
        return "remove this division"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator

            ACCUM = 4


            def train(model, features, values, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=ACCUM)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * ACCUM):
                    pick = torch.randint(len(features), (8,))
                    with accelerator.accumulate(model):
                        loss = F.mse_loss(model(features[pick]), values[pick])
                        accelerator.backward(loss)
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Accelerate divides; the loop does not.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum

                def scaled_loss(self, x, y):
                    return F.mse_loss(self.model(x), y) / self.accum

                def update(self, features, values):
                    for _ in range(self.accum):
                        pick = torch.randint(len(features), (8,))
                        self.scaled_loss(features[pick], values[pick]).backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
            """,
            "One division, in a helper.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from lightning.fabric import Fabric


            def train(model, optimizer, features, values, updates, accum=4):
                fabric = Fabric()
                model, optimizer = fabric.setup(model, optimizer)
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    last = (i + 1) % accum == 0
                    with fabric.no_backward_sync(model, enabled=not last):
                        fabric.backward(F.mse_loss(model(features[pick]), values[pick]) / accum)
                    if last:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Fabric does not divide, so the loop must.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator

            ACCUM = 4


            def train(model, features, values, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=ACCUM)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * ACCUM):
                    pick = torch.randint(len(features), (8,))
                    with accelerator.accumulate(model):
                        loss = F.mse_loss(model(features[pick]), values[pick])
                        loss = loss / ACCUM  # <- here
                        accelerator.backward(loss)
                        optimizer.step()
                        optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum

                def scaled_loss(self, x, y):
                    return F.mse_loss(self.model(x), y) / self.accum

                def update(self, features, values):
                    for _ in range(self.accum):
                        pick = torch.randint(len(features), (8,))
                        loss = self.scaled_loss(features[pick], values[pick])
                        loss = loss / self.accum  # <- here
                        loss.backward()
                    self.optimizer.step()
                    self.optimizer.zero_grad()
            """,
            "A helper divides, and the loop once more.",
        ),
        example(
            """
            import deepspeed
            import torch
            import torch.nn.functional as F

            CONFIG = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4}


            def train(model, features, values, updates):
                engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
                for _ in range(updates * 4):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(engine(features[pick]), values[pick])
                    loss = loss / engine.gradient_accumulation_steps()  # <- here
                    engine.backward(loss)
                    engine.step()
            """,
            "`engine.backward` divides by `gradient_accumulation_steps` of its configuration.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, tokens, optimizer, scaler, updates, accum=4, block=8):
                for _ in range(updates):
                    for _ in range(accum):
                        starts = torch.randint(len(tokens) - block - 1, (2,)).tolist()
                        rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                        loss = loss / accum
                        scaler.scale(loss / accum).backward()  # <- here
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            "Twice in one loop: once in a statement, once in the call.",
        ),
    )
