from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import heaviest_pair, number, steps_name


class EqualBatchWeight(Rule):
    """A short last batch gets the same weight as a full one.

    ## What it does
    Reports a backward call whose loss is a microbatch mean divided by a constant number of steps, where the only reason
    in sight that counts can differ is the batch size: a finite loader is iterated and nothing shows that it drops a
    short last batch.

    ## Why it is bad
    The update should be `g = sum_k S_k / sum_k n_k`. `DataLoader` keeps a short last batch by default
    (`drop_last=False`). With batches of 8, 8, 8 and 1 and a division by 4, the one example of the last batch has
    weight 1/4 instead of 1/25: 6.25x its due, 8x that of every other example of the window. Only the window with the
    short batch is wrong, in every epoch.

    ## Exceptions
    Silent where counts are provably equal: `drop_last=True` with one target per example, fixed-shape batches that the
    code draws itself, and endless streams (those are ACC404's business). A sum divided by the window's examples is
    right for every batch size. Where a mask, ignored targets or class weights are in sight too, ACC101 is reported.

    ## References
    - keras-team/keras#20241
    - https://docs.pytorch.org/docs/stable/data.html#torch.utils.data.DataLoader (`drop_last`)
    - huggingface/transformers#24725 (the general case)
    """

    code = "ACC102"
    name = "equal-batch-weight"
    clause = Clause.BATCH_WEIGHT
    summary = "a short last batch gets the same weight as a full one"
    repair = Repair.DEFERRED
    repair_safety = (
        "Safe where the loss's own normaliser is in sight and was checked against the inserted count. Unsafe where the "
        "criterion comes from the caller. `drop_last=True` is the smaller cure where losing a few examples is "
        "acceptable; it is not applied automatically, because it changes what the model is trained on."
    )

    def message(self, violation: Violation) -> str:
        """`counts` are the examples of each batch, `weights` what its mean is multiplied by; both may be missing."""
        name = steps_name(violation)
        text = "a short last batch weighs as much as a full one"
        if name:
            text += f" (each mean is divided by {name})"
        pair = heaviest_pair(violation)
        if pair:
            first, second, ratio = pair
            text += (
                f": e.g. with batches of {number(first)} and {number(second)}, each target of the first weighs "
                f"{number(ratio)}x one of the second"
            )
        return text + "; weight by batch size or drop the short batch"

    def hint(self, violation: Violation) -> str:
        return "pass drop_last=True to the loader, or sum the losses and divide the gradient once by the examples seen"

    good = (
        example(
            """
            from itertools import islice

            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                stream = iter(DataLoader(dataset, batch_size=2, shuffle=True))
                while window := list(islice(stream, accum)):
                    examples = sum(len(y) for _, y in window)
                    for x, y in window:
                        loss = F.cross_entropy(model(x), y, reduction="sum") / examples
                        loss.backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Every sum is divided by the examples of the whole window.",
        ),
        example(
            """
            from itertools import islice

            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                stream = iter(DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True))
                while window := list(islice(stream, accum)):
                    for x, y in window:
                        (F.cross_entropy(model(x), y) / len(window)).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "`drop_last=True` with one target per example: all counts are equal.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4, batch=2):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (batch,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Batches of one fixed size, drawn by the loop itself.",
        ),
    )
    bad = (
        example(
            """
            from itertools import islice

            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def train(model, dataset, optimizer, accum=4):
                stream = iter(DataLoader(dataset, batch_size=2, shuffle=True))
                while window := list(islice(stream, accum)):
                    for x, y in window:
                        loss = F.cross_entropy(model(x), y) / len(window)
                        loss.backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            def train_one_epoch(model, data_loader, criterion, optimizer, accumulation_steps=4):
                model.train()
                optimizer.zero_grad()
                for i, (inputs, targets) in enumerate(data_loader):
                    loss = criterion(model(inputs), targets) / accumulation_steps
                    loss.backward()  # <- here
                    if (i + 1) % accumulation_steps == 0:  # <- ACC304
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Loader and criterion come from the caller: nothing shows that a short last batch is dropped.",
        ),
        example(
            """
            import torch
            from torch.utils.data import DataLoader


            class Fit:
                def __init__(self, model, dataset, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.loader = DataLoader(dataset, batch_size=2, shuffle=True)
                    self.criterion = torch.nn.CrossEntropyLoss()

                def fit(self, epochs):
                    usable = len(self.loader) // self.accum * self.accum
                    for _ in range(epochs):
                        for i, (x, y) in enumerate(self.loader):
                            if i == usable:
                                break
                            loss = self.criterion(self.model(x), y)
                            (loss / self.accum).backward()  # <- here
                            if (i + 1) % self.accum == 0:
                                self.optimizer.step()
                                self.optimizer.zero_grad()
            """,
            "Only whole windows are used, but the last batch of the last window may still be short.",
        ),
    )
