from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import because, heaviest_pair, number, steps_name


class EqualTargetWeight(Rule):
    """Microbatch means over varying numbers of valid targets get equal weight.

    ## What it does
    Reports a backward call whose loss is a mean over the valid targets of one microbatch (not ignored, not masked, not
    padded; for a class-weighted loss the sum of the target weights), divided by a constant number of steps, by hand or
    by the framework, where something in sight says that the counts differ.

    ## Why it is bad
    The update should be `g = sum_k S_k / sum_k n_k`, with S_k the gradient of microbatch k's summed loss and n_k its
    valid targets. Dividing each mean by K gives `sum_k (S_k / n_k) / K` instead: a target in a short microbatch weighs
    more than one in a long microbatch. Take 2 targets with mean gradient 3 and 5 with mean gradient -1: the mean over
    all is (6 - 5) / 7 = 1/7, the mean of the means is (3 - 1) / 2 = 1, seven times as much. No learning rate repairs
    it, since the error is another one in each window.

    ## Exceptions
    Silent where the counts are provably equal (fixed-shape blocks without ignored targets), where the loss is a sum
    that is divided by the window's count (before or after backward), and for losses that are a mean over examples on
    purpose. If only a short last batch can make the counts differ, ACC102 is reported; if nothing in sight says
    anything about the counts, only the opt-in ACC404 is.

    ## References
    - huggingface/transformers#24725: samples of 11 and 101 tokens, about 10x the weight per token
    - meta-pytorch/torchtune#1875, allenai/open-instruct#1728
    - https://unsloth.ai/blog/gradient
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.CrossEntropyLoss.html (`ignore_index`, default -100)
    """

    code = "ACC101"
    name = "equal-target-weight"
    clause = Clause.TARGET_WEIGHT
    summary = "microbatch means over varying numbers of valid targets get equal weight"
    repair = Repair.DEFERRED
    repair_safety = (
        "Safe where the repaired loop is proved and executed and the inserted count is the loss's own normaliser. "
        "Unsafe where the count cannot be checked (the loss comes from elsewhere), and where fp16 scaling could "
        "overflow on summed losses: there the pre-count form is offered. The size of the update changes, so a tuned "
        "learning rate may need another look."
    )

    def message(self, violation: Violation) -> str:
        """`counts`, `weights`, `divisor` and the first evidence are used; all may be missing."""
        name = steps_name(violation)
        if name:
            text = f"microbatch means over varying counts get equal weight (each is divided by {name})"
        else:
            text = "microbatch means over varying counts of valid targets get equal weight"
        pair = heaviest_pair(violation)
        if pair:
            first, second, ratio = pair
            text += (
                f": e.g. with {number(first)} and {number(second)} valid targets, each target of the first "
                f"weighs {number(ratio)}x one of the second"
            )
        return text + because(violation) + "; weight by valid targets"

    def hint(self, violation: Violation) -> str:
        return "sum the losses, count the valid targets, divide the gradient once by the count before the step"

    good = (
        example(
            """
            import torch.nn.functional as F


            def train(model, stream, optimizer, updates, accum=4):
                for _ in range(updates):
                    count = 0
                    for _ in range(accum):
                        ids, labels = next(stream)  # labels are -100 on padding
                        logits = model(ids).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum")
                        loss.backward()
                        count += int((labels != -100).sum())
                    for p in model.parameters():
                        p.grad /= max(count, 1)
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Deferred: sums are added, the gradient is divided once by the window's valid targets.",
        ),
        example(
            """
            from itertools import islice

            import torch.nn.functional as F


            def train(model, loader, optimizer, accum=4):
                stream = iter(loader)
                while window := list(islice(stream, accum)):
                    total = max(sum(int((labels != -100).sum()) for _, labels in window), 1)
                    for ids, labels in window:
                        logits = model(ids).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum")
                        (loss / total).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Pre-count: the window is fetched first, every sum is divided by the joint count.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def get_batch(tokens, block=8, batch=2):
                starts = torch.randint(len(tokens) - block - 1, (batch,)).tolist()
                rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                return rows[:, :-1], rows[:, 1:]


            def pretrain(model, tokens, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        x, y = get_batch(tokens)
                        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
                        (loss / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "Blocks of one fixed shape hold equal counts: the mean of the means is the mean.",
        ),
    )
    bad = (
        example(
            """
            import torch.nn.functional as F


            def train(model, stream, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        ids, labels = next(stream)  # labels are -100 on padding
                        logits = model(ids).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.flatten(), ignore_index=-100)
                        (loss / accum).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            class Trainer:
                def __init__(self, model, optimizer, device="cuda"):
                    self.model, self.optimizer = model, optimizer
                    self.scaler = torch.amp.GradScaler(device)

                def masked_mean(self, ids, labels, mask):
                    logits = self.model(ids).flatten(0, 1)
                    per_token = F.cross_entropy(logits, labels.flatten(), reduction="none")
                    return (per_token * mask.flatten()).sum() / mask.sum()

                def update(self, window):
                    for ids, labels, mask in window:
                        loss = self.masked_mean(ids, labels, mask) / len(window)
                        self.scaler.scale(loss).backward()  # <- here
                    self.scaler.unscale_(self.optimizer)
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
                    self.scaler.step(self.optimizer)
                    self.scaler.update()
                    self.optimizer.zero_grad()
            """,
            "A masked mean, in a class, with mixed precision: each mask has its own number of ones.",
        ),
        example(
            """
            from torch import nn
            from torch.utils.data import DataLoader


            def train(model, dataset, class_weights, optimizer, accum=4):
                loader = DataLoader(dataset, batch_size=2, shuffle=True, drop_last=True)
                criterion = nn.CrossEntropyLoss(weight=class_weights)
                usable = len(loader) // accum * accum
                for i, (x, y) in enumerate(loader):
                    if i >= usable:
                        break
                    loss = criterion(model(x), y) / accum
                    loss.backward()  # <- here
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Class weights: the mean divides by the weights of the targets present, which differ at equal batch size.",
        ),
        example(
            """
            import torch.nn.functional as F
            from accelerate import Accelerator


            def finetune(model, stream, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * 4):
                    ids, labels = next(stream)
                    with accelerator.accumulate(model):
                        logits = model(ids)[:, :-1].flatten(0, 1)
                        loss = F.cross_entropy(logits, labels[:, 1:].flatten(), ignore_index=-100)
                        accelerator.backward(loss)  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "`accelerator.backward` divides by the configured number of steps, whatever the counts.",
        ),
    )
