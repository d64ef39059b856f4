from __future__ import annotations

from fractions import Fraction

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import known_steps, number, plural, sampled_steps, share, steps_name


class PartialWindowDivisor(Rule):
    """The short last window steps, but its gradient was divided by the full number of steps.

    ## What it does
    Reports a backward call that divides by the number of accumulation steps in a loop whose last window can be shorter
    and does step.

    ## Why it is bad
    The update should be `g = sum_k S_k / sum_k n_k` over the microbatches that the window has. A last window of 1
    microbatch divided by 4 makes 1/4 of its update; Adam's averages take in a gradient of the wrong size, and a clip
    limit and a logged gradient norm are off by the same factor. It happens once per epoch, so small data sets suffer
    most: with 5 microbatches per epoch and 4 steps it is every second update.

    ## Exceptions
    Silent where the divisor is the window's own length (`len(window)`, `min(accum, left)`), where the gradient is
    divided by the window's count at the boundary, and where no partial window steps (that is ACC304 if its gradient is
    lost). Lightning and Accelerate divide the last window by the full number too; there is nothing in the loop to
    change, except to sum and divide by counts.

    ## References
    - meta-pytorch/torchtune#2745, Lightning-AI/pytorch-lightning#19987, m2lines/Samudra#476
    - huggingface/transformers: `Trainer` divides by the actual number of batches of the window
    """

    code = "ACC107"
    name = "partial-window-divisor"
    clause = Clause.PARTIAL_DIVISOR
    summary = "the short last window steps, but was divided by the full number of steps"
    repair = Repair.DEFERRED
    repair_safety = (
        "Safe under the conditions of ACC101: dividing by the window's own count at the boundary is right for every "
        "length of a window."
    )

    def message(self, violation: Violation) -> str:
        """`window` is the length of a partial window, as sampled, `steps` the full number."""
        short, full = violation.window, sampled_steps(violation)
        fits = 0 < short < full
        ratio = Fraction(short, full) if fits else share(violation)
        size = f"{number(ratio)} of what it should be" if ratio and ratio < 1 else "too small"
        size = f"its update is {size}"
        known = known_steps(violation)
        if known and fits:
            return f"a short last window of {plural(short, 'microbatch')} is divided by {known}: {size}"
        name = steps_name(violation) or "number of steps"
        text = f"a short last window is divided by the full {name}"
        return f"{text}: e.g. with {plural(short, 'microbatch')} of {full}, {size}" if fits else f"{text}: {size}"

    def hint(self, violation: Violation) -> str:
        return "divide by the number of microbatches (or valid targets) that the window really has"

    good = (
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                n = len(loader)
                for i, (x, y) in enumerate(loader):
                    window = min(accum, n - i // accum * accum)
                    loss = F.cross_entropy(model(x), y) / window
                    loss.backward()
                    if (i + 1) % accum == 0 or i + 1 == n:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "The last window is divided by its own length.",
        ),
        example(
            """
            from itertools import islice

            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                stream = iter(DataLoader(dataset, batch_size=2, drop_last=True))
                while chunk := list(islice(stream, accum)):
                    for x, y in chunk:
                        (F.cross_entropy(model(x), y) / len(chunk)).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "`len(chunk)` is the window's own length.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                usable = len(loader) // accum * accum
                for i, (x, y) in enumerate(loader):
                    if i == usable:
                        break
                    (F.cross_entropy(model(x), y) / accum).backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "The incomplete window is not used at all.",
        ),
    )
    bad = (
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                n = len(loader)
                for i, (x, y) in enumerate(loader):
                    loss = F.cross_entropy(model(x), y) / accum
                    loss.backward()  # <- here
                    if (i + 1) % accum == 0 or i + 1 == n:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
        ),
        example(
            """
            from itertools import islice

            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                stream = iter(DataLoader(dataset, batch_size=2, drop_last=True))
                while chunk := list(islice(stream, accum)):
                    for x, y in chunk:
                        (F.cross_entropy(model(x), y) / accum).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "The last chunk of `islice` may be shorter.",
        ),
        example(
            """
            import torch
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model, dataset, optimizer, scaler, accum=4):
                    self.model, self.optimizer, self.scaler, self.accum = model, optimizer, scaler, accum
                    self.loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                    self.criterion = torch.nn.CrossEntropyLoss()

                def apply(self):
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()

                def fit(self):
                    pending = 0
                    for x, y in self.loader:
                        loss = self.criterion(self.model(x), y) / self.accum
                        self.scaler.scale(loss).backward()  # <- here
                        pending += 1
                        if pending == self.accum:
                            self.apply()
                            pending = 0
                    if pending:
                        self.apply()
            """,
            "A flush after the loop, in a class, with mixed precision.",
        ),
    )
