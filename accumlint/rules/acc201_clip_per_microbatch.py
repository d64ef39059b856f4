from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, runs_inside


class ClipPerMicrobatch(Rule):
    """Gradient clipping runs for every microbatch of an accumulation window.

    ## What it does
    Reports a call of `clip_grad_norm_` or `clip_grad_value_` (torch, Accelerate, Fabric, the FSDP method) that runs
    before the last backward of a window.

    ## Why it is bad
    The update should be `theta - lr * clip(g)`: one clip, of the finished gradient `g = sum_k S_k / sum_k n_k`. A clip
    inside the window clips partial sums and so weighs the microbatches anew. Take summed gradients 6 and -5 of 7
    targets: the mean is 1/7. With a limit of 3 after each backward, 6 becomes 3, then 3 - 5 = -2, and the update is
    -2/7: it points the other way. No learning rate repairs a direction.

    ## Exceptions
    A plain loop (one backward, one step) clips for each batch, rightly. So does a call under
    `if accelerator.sync_gradients:` or at the boundary. Clipping each example's gradient on purpose (differential
    privacy) is another method, and not reported where no optimizer window is involved.

    ## References
    - huggingface/transformers#1563, huggingface/diffusers#721, facebookresearch/lingua#59
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.utils.clip_grad_norm_.html
    - https://huggingface.co/docs/accelerate/usage_guides/gradient_accumulation
    """

    code = "ACC201"
    name = "clip-per-microbatch"
    clause = Clause.CLIP_COUNT
    summary = "gradient clipping runs for every microbatch of a window"
    repair = Repair.MOVE
    repair_safety = (
        "Safe where the repaired loop is proved and executed with an active clip: the call moves before the step, "
        "after unscaling and after the division. It needs no count, so no loss has to be checked."
    )

    def message(self, violation: Violation) -> str:
        """`subject` is the clip call, `times` how often it ran, `window` its length; K's name is `divisor`."""
        call = call_name(violation, "the clip")
        text = runs_inside(call, violation)
        return f"{text}: it clips partial sums and so changes the direction of the update; clip once, before the step"

    def hint(self, violation: Violation) -> str:
        return "move the clip under the boundary, directly before the optimizer step"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def pretrain(model, tokens, optimizer, updates, accum=4, block=8):
                for _ in range(updates):
                    for _ in range(accum):
                        starts = torch.randint(len(tokens) - block - 1, (2,)).tolist()
                        rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                        (loss / accum).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "One clip, of the finished gradient.",
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
                        if accelerator.sync_gradients:
                            accelerator.clip_grad_norm_(model.parameters(), 1.0)
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "The clip waits for the microbatch on which Accelerate synchronises.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch.nn.utils import clip_grad_norm_


            def train(model, loader, optimizer):
                for ids, labels in loader:
                    loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
                    optimizer.zero_grad()
                    loss.backward()
                    clip_grad_norm_(model.parameters(), 0.1)
                    optimizer.step()
            """,
            "A plain loop: every batch is a window.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def pretrain(model, tokens, optimizer, updates, accum=4, block=8):
                for _ in range(updates):
                    for _ in range(accum):
                        starts = torch.randint(len(tokens) - block - 1, (2,)).tolist()
                        rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                        (loss / accum).backward()
                        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
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
                        accelerator.backward(F.mse_loss(model(features[pick]), values[pick]))
                        accelerator.clip_grad_norm_(model.parameters(), 1.0)  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "`accelerator.clip_grad_norm_` does not wait for the boundary, unlike the prepared optimizer.",
        ),
        example(
            """
            import torch.nn.functional as F
            from torch import nn


            def train(model, loader, optimizer, accum=4):
                seen, n = 0, len(loader)
                for i, (ids, labels) in enumerate(loader):
                    logits = model(ids).flatten(0, 1)
                    F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum").backward()
                    seen += int((labels != -100).sum())
                    nn.utils.clip_grad_value_(model.parameters(), 0.01)  # <- here
                    if (i + 1) % accum == 0 or i + 1 == n:
                        for p in model.parameters():
                            p.grad /= max(seen, 1)
                        optimizer.step()
                        optimizer.zero_grad()
                        seen = 0
            """,
            "Every partial sum is clipped, and before the division at that.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, scaler, accum=4):
                    self.model, self.optimizer, self.scaler, self.accum = model, optimizer, scaler, accum
                    self.criterion = torch.nn.MSELoss()

                def backward(self, x, y):
                    (self.criterion(self.model(x), y) / self.accum).backward()
                    torch.nn.utils.clip_grad_norm_(self.model.parameters(), 0.01)  # <- here

                def fit(self, features, values, updates):
                    for _ in range(updates):
                        for _ in range(self.accum):
                            pick = torch.randint(len(features), (8,))
                            self.backward(features[pick], values[pick])
                        self.optimizer.step()
                        self.optimizer.zero_grad()
            """,
            "The clip sits in the method that runs the backward.",
        ),
    )
