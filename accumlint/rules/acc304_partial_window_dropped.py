from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import plural, sampled_steps

_ENDINGS = {
    "dropped": "neither steps nor is cleared: its gradient is lost, or leaks into the next epoch's first window",
    "leaked": "neither steps nor is cleared: its gradient leaks into the next epoch's first window",
    "cleared": "never steps: its gradient is cleared and lost",
}


class PartialWindowDropped(Rule):
    """The last partial window of an epoch neither steps nor is cleared.

    ## What it does
    Reports the `if` of a window boundary in a loop over a finite loader, where the microbatches after the last boundary
    neither step nor are cleared: their gradient is lost, or leaks into the first window of the next epoch.

    ## Why it is bad
    Every update should be `g = sum_k S_k / sum_k n_k` over one window. With 10 microbatches and 4 steps, 2 are left: in
    the last epoch they are computed for nothing, in every other one they join the next window, which then holds 6
    microbatches divided by 4, 1.5x its due, 2 of them computed at older weights of the epoch before.

    ## Exceptions
    Silent where the tail steps (`or i + 1 == len(loader)`, a flush after the loop), is never run (`islice`, a `break`
    at the last whole window), is cleared on purpose, where the number of microbatches is a multiple by construction
    (`range(updates * accum)`), for endless streams, and where a counter runs on over the epochs.

    ## References
    - meta-pytorch/torchtune#2745 (15 microbatches in one step), huggingface/transformers#2533
    - NVIDIA-NeMo/Automodel#2257
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "ACC304"
    name = "partial-window-dropped"
    clause = Clause.LEFTOVER
    summary = "the last partial window of an epoch neither steps nor is cleared"
    repair = Repair.FLUSH
    repair_safety = (
        "Safe where the gradient of the flush is divided by its own count, which is repaired together with it. The "
        "number of updates per epoch rises by one, so a schedule whose length was computed with `//` may need it too."
    )

    def message(self, violation: Violation) -> str:
        """`detail` is `dropped`, `leaked` or `cleared`; `lost` counts the microbatches left over, as sampled."""
        ending = _ENDINGS.get(violation.detail, _ENDINGS["dropped"])
        window = "the last partial window"
        full = sampled_steps(violation)
        if 0 < violation.lost < full:
            window += f" (e.g. {plural(violation.lost, 'microbatch')} of {full})"
        elif violation.lost > 0:
            window += f" (e.g. {plural(violation.lost, 'microbatch')})"
        return f"{window} {ending}; step once more after the loop"

    def hint(self, violation: Violation) -> str:
        return "step for the partial window as well, divided by its own count, or stop at the last whole window"

    good = (
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, epochs, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                for _ in range(epochs):
                    seen = 0
                    for i, (x, y) in enumerate(loader):
                        F.cross_entropy(model(x), y, reduction="sum").backward()
                        seen += len(y)
                        if (i + 1) % accum == 0 or i + 1 == len(loader):
                            for p in model.parameters():
                                p.grad /= seen
                            optimizer.step()
                            optimizer.zero_grad()
                            seen = 0
            """,
            "The last window steps as well, divided by what it holds.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, epochs, accum=4):
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
            """,
            "Only whole windows are run.",
        ),
        example(
            """
            import torch.nn.functional as F


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum

                def apply(self, count):
                    for p in self.model.parameters():
                        p.grad /= max(count, 1)
                    self.optimizer.step()
                    self.optimizer.zero_grad()

                def fit(self, loader):
                    count = pending = 0
                    for ids, labels in loader:
                        logits = self.model(ids).flatten(0, 1)
                        F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum").backward()
                        count += int((labels != -100).sum())
                        pending += 1
                        if pending == self.accum:
                            self.apply(count)
                            count = pending = 0
                    if pending:
                        self.apply(count)
            """,
            "A flush after the loop.",
        ),
    )
    bad = (
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, epochs, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                for _ in range(epochs):
                    for i, (x, y) in enumerate(loader):
                        loss = F.cross_entropy(model(x), y) / accum
                        loss.backward()
                        if (i + 1) % accum == 0:  # <- here
                            optimizer.step()
                            optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch.nn.functional as F


            def finetune(model, loader, optimizer, epochs, accum=4):
                for _ in range(epochs):
                    count = 0
                    for i, (ids, labels) in enumerate(loader, start=1):
                        logits = model(ids).flatten(0, 1)
                        F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum").backward()
                        count += int((labels != -100).sum())
                        if i % accum != 0:  # <- here
                            continue
                        for p in model.parameters():
                            p.grad /= max(count, 1)
                        optimizer.step()
                        optimizer.zero_grad()
                        count = 0
            """,
            "Rightly weighted by targets, but the tail leaks (and the count of the next epoch forgets it).",
        ),
        example(
            """
            import torch
            from torch.utils.data import DataLoader


            class Trainer:
                def __init__(self, model, dataset, optimizer, scaler, args):
                    self.model, self.optimizer, self.scaler, self.args = model, optimizer, scaler, args
                    self.loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                    self.criterion = torch.nn.CrossEntropyLoss()

                def fit(self):
                    for _ in range(self.args.epochs):
                        pending = 0
                        for x, y in self.loader:
                            loss = self.criterion(self.model(x), y) / self.args.accum
                            self.scaler.scale(loss).backward()
                            pending += 1
                            if pending == self.args.accum:  # <- here
                                self.scaler.step(self.optimizer)
                                self.scaler.update()
                                self.optimizer.zero_grad()
                                pending = 0
            """,
            "The counter starts anew in each epoch, the gradients do not.",
        ),
    )
