from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Rule, example
from accumlint.rules.words import steps_name


class UnprovenEqualWeight(Rule):
    """Microbatch means weigh equally, and nothing in sight says whether their counts can differ.

    ## What it does
    Reports a backward call whose loss is a microbatch mean divided by a constant number of steps, where the batches
    come from a place that cannot be seen: `next(it)`, a `get_batch` defined elsewhere, an endless stream.

    ## Why it is bad
    It may be right. `g = sum_k S_k / sum_k n_k` equals the mean of the means only for equal counts; with 2 valid
    targets in one microbatch and 5 in another, each target of the first weighs 2.5x one of the second (ACC101). This
    rule lists the loops whose data have to be looked at; in pretraining on packed blocks they are right.

    ## Exceptions
    Silent where counts are provably equal, and where they provably can differ: that is ACC101 or ACC102.

    ## References
    - huggingface/transformers#24725
    - PrimeIntellect-ai/prime-rl#2562 (a real skew of only 1.02 to 1.04 per step)
    """

    code = "ACC404"
    name = "unproven-equal-weight"
    clause = Clause.UNPROVEN_WEIGHT
    summary = "microbatch means weigh equally and nothing in sight says whether counts can differ"
    opt_in = True
    repair = None
    repair_safety = (
        "There is no repair of its own: weighting by counts is right in both cases, but where counts are equal it only "
        "adds lines."
    )

    def message(self, violation: Violation) -> str:
        """`divisor` is named, if known."""
        name = steps_name(violation)
        text = "microbatch means get equal weight" + (f" (each is divided by {name})" if name else "")
        return text + ": right only if every microbatch has the same number of valid targets, which nothing here shows"

    def hint(self, violation: Violation) -> str:
        return "weight by valid targets, or make the equal counts visible (fixed shapes, drop_last=True)"

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
            "The loop draws 8 examples itself.",
        ),
        example(
            """
            import torch.nn.functional as F


            def train(model, batches, optimizer, updates, accum=4):
                for _ in range(updates):
                    count = 0
                    for _ in range(accum):
                        x, y = next(batches)
                        F.cross_entropy(model(x), y, reduction="sum").backward()
                        count += len(y)
                    for p in model.parameters():
                        p.grad /= count
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Weighted by examples: right for every stream.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def get_batch(tokens, block=8, batch=2):
                starts = torch.randint(len(tokens) - block - 1, (batch,)).tolist()
                rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                return rows[:, :-1], rows[:, 1:]


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum

                def fit(self, tokens, updates):
                    for _ in range(updates):
                        for _ in range(self.accum):
                            x, y = get_batch(tokens)
                            loss = F.cross_entropy(self.model(x).flatten(0, 1), y.flatten())
                            (loss / self.accum).backward()
                        self.optimizer.step()
                        self.optimizer.zero_grad()
            """,
            "`get_batch` is in sight, and its blocks have one shape.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.utils.data import DataLoader


            def endless(loader):
                while True:
                    yield from loader


            def train(model, dataset, optimizer, updates, accum=4):
                batches = endless(DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True))
                for _ in range(updates):
                    for _ in range(accum):
                        x, y = next(batches)
                        (F.cross_entropy(model(x), y) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Equal counts seen through a generator.",
        ),
    )
    bad = (
        example(
            """
            import torch.nn.functional as F


            def train(model, batches, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        x, y = next(batches)
                        loss = F.cross_entropy(model(x), y) / accum
                        loss.backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch

            from project.data import get_batch


            class Trainer:
                def __init__(self, model, optimizer, accum=8):
                    self.model, self.optimizer, self.accum = model, optimizer, accum

                def update(self):
                    for _ in range(self.accum):
                        x, y = get_batch("train")
                        loss = torch.nn.functional.mse_loss(self.model(x), y)
                        (loss / self.accum).backward()  # <- here
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.optimizer.step()
                    self.optimizer.zero_grad()
            """,
            "`get_batch` is defined elsewhere.",
        ),
        example(
            """
            import torch.nn.functional as F
            from accelerate import Accelerator


            def train(model, stream, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * 4):
                    x, y = next(stream)
                    with accelerator.accumulate(model):
                        loss = F.cross_entropy(model(x), y)
                        accelerator.backward(loss)  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "The framework divides by a constant.",
        ),
    )
