from __future__ import annotations

from fractions import Fraction

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Rule, example
from accumlint.rules.words import brief, is_literal, is_symbolic, number, share


class LoggedLossScale(Rule):
    """The loss that is logged is the divided one.

    ## What it does
    Reports a statement that logs, prints or returns for logging a loss that has already been divided by the number of
    accumulation steps.

    ## Why it is bad
    The gradient may be right, but the curve is not the loss `sum_k S_k / sum_k n_k`: it is one microbatch's share of
    it. With 32 accumulation steps a loss of 10.9 is logged as 0.34. Runs with different accumulation cannot be
    compared, and early stopping or a threshold on the loss acts on the wrong number.

    ## Exceptions
    Silent where the undivided loss is logged or the log multiplies it back, and where the divided losses of a whole
    window are added up before they are logged.

    ## References
    - espnet/espnet#5090, deepspeedai/DeepSpeed#3367
    - huggingface/transformers#24725 (on what to average)
    """

    code = "ACC403"
    name = "logged-loss-scale"
    clause = Clause.LOGGED_SCALE
    summary = "the loss that is logged is the divided one"
    opt_in = True
    repair = None
    repair_safety = "There is no repair: only the author knows what the log should mean."

    def message(self, violation: Violation) -> str:
        """`divisor` is what the logged loss was divided by; `actual` / `expected` its share, if known."""
        name = brief(violation.divisor) or "the number of steps"
        ratio = share(violation)
        if ratio is None and is_literal(name):
            ratio = Fraction(1, int(name))
        text = f"the logged loss is already divided by {name}"
        if ratio and ratio < 1:
            lead = "e.g. " if is_symbolic(violation) else ""
            text += f": {lead}{number(ratio)} of the microbatch's loss"
        return text + "; log the loss before the division"

    def hint(self, violation: Violation) -> str:
        return "keep the undivided loss in a variable of its own and log that"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for u in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick])
                        (loss / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    print(f"update {u}: loss {loss.item():.4f}")
            """,
            "The division is for the backward only.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for u in range(updates):
                    window_loss = 0.0
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                        window_loss += loss.item()
                    optimizer.step()
                    optimizer.zero_grad()
                    print(f"update {u}: loss {window_loss:.4f}")
            """,
            "The shares of a whole window add up to its mean.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.criterion = torch.nn.MSELoss()

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        raw = self.criterion(self.model(features[pick]), values[pick])
                        loss = raw / self.accum
                        loss.backward()
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
                            self.optimizer.zero_grad()
                            print(f"loss {raw.item():.4f}")
            """,
            "The undivided loss has a name of its own.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                        print(f"loss {loss.item() * accum:.4f}")
            """,
            "Multiplied back for the log.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for u in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                        loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
                    print(f"update {u}: loss {loss.item():.4f}")  # <- here
            """,
        ),
        example(
            """
            import torch
            from torch.utils.tensorboard import SummaryWriter


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.criterion = torch.nn.MSELoss()
                    self.writer = SummaryWriter()

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        loss = self.criterion(self.model(features[pick]), values[pick])
                        loss = loss / self.accum
                        loss.backward()
                        self.writer.add_scalar("train/loss", loss.item(), i)  # <- here
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
                            self.optimizer.zero_grad()
            """,
            "TensorBoard, in a class.",
        ),
        example(
            """
            import logging

            import torch
            import torch.nn.functional as F

            logger = logging.getLogger(__name__)


            def train(model, features, values, optimizer, scaler, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick])
                    loss /= accum
                    scaler.scale(loss).backward()
                    if (i + 1) % accum == 0:
                        scaler.step(optimizer)
                        scaler.update()
                        optimizer.zero_grad()
                        logger.info("update %d loss %.4f", (i + 1) // accum, loss.item())  # <- here
            """,
            "Divided in place, logged at the boundary.",
        ),
    )
