from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, runs_inside


class ScalerPerMicrobatch(Rule):
    """`GradScaler.unscale_` or `update` runs for every microbatch of a window.

    ## What it does
    Reports `scaler.unscale_(optimizer)` and `scaler.update()` that run more than once in a window.

    ## Why it is bad
    All microbatches of `g = sum_k S_k / sum_k n_k` must carry the same loss scale. `unscale_` in the middle divides the
    gradients so far by 65536, and the next backward adds scaled ones to them: the first microbatch counts 1/65536 of
    the second. `update` in the middle may change the scale, with the same effect. Alone, a second `unscale_` raises
    RuntimeError; together with `update` it runs in silence.

    ## Exceptions
    Silent at the boundary, in a plain loop, for one `unscale_` per optimizer where there are several, and for a scaler
    with `enabled=False`.

    ## References
    - pytorch/pytorch#36601
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "ACC307"
    name = "scaler-per-microbatch"
    clause = Clause.SCALER
    summary = "GradScaler.unscale_ or update runs for every microbatch of a window"
    repair = Repair.MOVE
    repair_safety = "Safe where the repaired loop is proved and executed: both calls move to the boundary, in order."

    def message(self, violation: Violation) -> str:
        """`subject` is the reported call, `times` how often it ran in the window; K's name is `divisor`."""
        call = call_name(violation, "the scaler")
        text = runs_inside(call, violation)
        return f"{text}: its microbatches carry different loss scales; call it once, at the boundary"

    def hint(self, violation: Violation) -> str:
        return "at the boundary, in this order: unscale_, clip, step, update"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4, device="cuda"):
                scaler = torch.amp.GradScaler(device)
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            "Unscale and update once per window.",
        ),
        example(
            """
            import torch.nn.functional as F


            def train(model, loader, optimizer, scaler):
                for ids, labels in loader:
                    loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
                    optimizer.zero_grad()
                    scaler.scale(loss).backward()
                    scaler.unscale_(optimizer)
                    scaler.step(optimizer)
                    scaler.update()
            """,
            "A plain loop: every batch is a window.",
        ),
        example(
            """
            import torch


            class AmpLoop:
                def __init__(self, model, optimizer, scaler, accum=4):
                    self.model, self.optimizer, self.scaler, self.accum = model, optimizer, scaler, accum
                    self.loss = torch.nn.MSELoss()

                def apply(self):
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        loss = self.loss(self.model(features[pick]), values[pick]) / self.accum
                        self.scaler.scale(loss).backward()
                        if (i + 1) % self.accum == 0:
                            self.apply()
            """,
            "`scaler.step` unscales by itself.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4, device="cuda"):
                scaler = torch.amp.GradScaler(device)
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        scaler.scale(loss).backward()
                        scaler.unscale_(optimizer)  # <- here
                        scaler.update()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
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
                    scaler.unscale_(optimizer)  # <- here
                    if (i + 1) % accum == 0:
                        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                        scaler.step(optimizer)
                        scaler.update()
                        optimizer.zero_grad()
            """,
            "The second `unscale_` of a window raises RuntimeError.",
        ),
        example(
            """
            import torch


            class AmpLoop:
                def __init__(self, model, optimizer, scaler, accum=4):
                    self.model, self.optimizer, self.scaler, self.accum = model, optimizer, scaler, accum
                    self.loss = torch.nn.MSELoss()

                def backward(self, x, y):
                    loss = self.loss(self.model(x), y) / self.accum
                    self.scaler.scale(loss).backward()
                    self.scaler.unscale_(self.optimizer)  # <- here

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        self.backward(features[pick], values[pick])
                        if (i + 1) % self.accum == 0:
                            self.scaler.step(self.optimizer)
                            self.optimizer.zero_grad()
                        self.scaler.update()  # <- here
            """,
            "Unscaling in the method of the microbatch, updating outside the boundary: it runs in silence.",
        ),
    )
