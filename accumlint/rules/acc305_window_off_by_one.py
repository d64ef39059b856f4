from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import is_symbolic, known_steps, plural, sampled_steps, steps_name


class WindowOffByOne(Rule):
    """The boundary fires on the wrong microbatch: the first window is too short.

    ## What it does
    Reports the `if` of a window boundary whose first window has another length than the later ones, as with
    `i % accum == 0` where `i` counts from 0.

    ## Why it is bad
    Each update should be `g = sum_k S_k / sum_k n_k` over K microbatches. `0 % 4 == 0`, so the first update is made
    from 1 microbatch, divided by 4 where the loss is divided by the number of steps: 1/4 of its size. All later windows
    are shifted, and at the end of each epoch 3 microbatches are left over instead of none, or leak into the next epoch.

    ## Exceptions
    The same text is right where the counter starts at 1: `enumerate(loader, start=1)`, a counter bumped before the
    test, an engine's own iteration. Silent too where the modulo guards a log, a checkpoint or a resume.

    ## References
    - rasbt/LLMs-from-scratch#299, AnswerDotAI/fsdp_qlora#6, eriklindernoren/PyTorch-YOLOv3#325
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "ACC305"
    name = "window-off-by-one"
    clause = Clause.OFF_BY_ONE
    summary = "the boundary fires on the wrong microbatch: the first window is too short"
    repair = Repair.BOUNDARY
    repair_safety = (
        "Safe where the counter's start is in sight and the repaired loop is proved and executed. Unsafe where the "
        "counter comes from the caller, who may count from 1."
    )

    def message(self, violation: Violation) -> str:
        """`window` is the length of the first window, `steps` is K."""
        text, full = "the boundary fires on the wrong microbatch", sampled_steps(violation)
        if not 0 < violation.window < full:
            return f"{text}: the first window is not as long as the others; count from 1 in the test"
        first = f"the first window has {plural(violation.window, 'microbatch')} instead of"
        if known_steps(violation):
            return f"{text}: {first} {full}; count from 1 in the test"
        if is_symbolic(violation) and violation.window == 1:
            return f"{text}: {first} {steps_name(violation)}; count from 1 in the test"
        name = f" for {steps_name(violation)}" if is_symbolic(violation) else ""
        return f"{text}: e.g. {first} {full}{name}; count from 1 in the test"

    def hint(self, violation: Violation) -> str:
        return "test (i + 1) % accum == 0"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                i = done = 0
                while done < updates:
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
                        done += 1
                    i += 1
            """,
            "`i + 1` microbatches have been seen when the test runs.",
        ),
        example(
            """
            from itertools import islice

            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                whole = islice(loader, len(loader) // accum * accum)
                for i, (x, y) in enumerate(whole, start=1):
                    (F.cross_entropy(model(x), y) / accum).backward()
                    if i % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "The counter starts at 1.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum, self.seen = model, optimizer, accum, 0
                    self.criterion = torch.nn.MSELoss()

                def microbatch(self, x, y):
                    (self.criterion(self.model(x), y) / self.accum).backward()
                    self.seen += 1
                    if self.seen % self.accum == 0:
                        self.optimizer.step()
                        self.optimizer.zero_grad()

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        self.microbatch(features[pick], values[pick])
                        if i % 10 == 0:
                            print("microbatch", i)
            """,
            "The counter is bumped before the test; `i % 10` guards a print.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                i = done = 0
                while done < updates:
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    if i % accum == 0:  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
                        done += 1
                    i += 1
            """,
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                for i, (x, y) in enumerate(loader):
                    (F.cross_entropy(model(x), y) / accum).backward()
                    if i % accum == 0:  # <- here, ACC304
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Over a loader, the shifted windows also leave a tail.",
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
                    count, last = 0, len(loader) - 1
                    for i, (ids, labels) in enumerate(loader):
                        logits = self.model(ids).flatten(0, 1)
                        F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum").backward()
                        count += int((labels != -100).sum())
                        if i % self.accum == 0 or i == last:  # <- here
                            self.apply(count)
                            count = 0
            """,
            "Weighted by targets and flushed, yet the first window has one microbatch.",
        ),
        example(
            """
            import itertools

            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                done = 0
                for i in itertools.count():
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    if i % accum == 0:  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
                        done += 1
                        if done == updates:
                            return
            """,
            "A loop that counts for ever, with its exit inside.",
        ),
    )
