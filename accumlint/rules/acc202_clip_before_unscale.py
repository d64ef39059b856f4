from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, number


class ClipBeforeUnscale(Rule):
    """Gradients are clipped while they are still multiplied by the loss scale.

    ## What it does
    Reports a clip of gradients that a `GradScaler` has scaled and not yet unscaled.

    ## Why it is bad
    `scaler.scale(loss)` multiplies the loss, and so every gradient, by the loss scale (65536 at first). The clip should
    see `g = sum_k S_k / sum_k n_k`; it sees 65536 g. A limit of 1.0 then acts like 0.000015 on the true gradient: every
    gradient is cut to that length, `scaler.step` divides by 65536, and the update nearly vanishes. The effective limit
    moves with each change of the scale.

    ## Exceptions
    Silent after `scaler.unscale_(optimizer)`, without a scaler, and for `accelerator.clip_grad_norm_` and
    `fabric.clip_gradients`, which unscale by themselves. A scaler that is created with `enabled=False` scales nothing.

    ## References
    - pytorch/examples#1196, milesial/Pytorch-UNet#468
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-clipping
    """

    code = "ACC202"
    name = "clip-before-unscale"
    clause = Clause.CLIP_SCALED
    summary = "gradients are clipped while they are still multiplied by the loss scale"
    repair = Repair.UNSCALE
    repair_safety = (
        "Safe where the repaired loop is proved and executed with an active clip: `scaler.unscale_(optimizer)` is "
        "inserted before the clip, and `scaler.step` then does not unscale again. A limit that was tuned to scaled "
        "gradients has to be set anew."
    )

    def message(self, violation: Violation) -> str:
        """`actual` is the scale at the sample point, if known (the true gradient has `expected`)."""
        call = call_name(violation, "the clip")
        text = f"{call} sees gradients that are still multiplied by the loss scale"
        scale = None
        if violation.actual is not None and violation.expected:
            scale = violation.actual / violation.expected
        if scale is not None and scale > 1:
            return (
                f"{text} (e.g. {number(scale)}): its limit acts as limit / scale; call scaler.unscale_(optimizer) first"
            )
        return f"{text}: its limit acts as limit / scale; call scaler.unscale_(optimizer) first"

    def hint(self, violation: Violation) -> str:
        return "insert scaler.unscale_(optimizer) before the clip"

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
                        with torch.autocast(device, dtype=torch.float16):
                            loss = F.mse_loss(model(features[pick]), values[pick])
                        scaler.scale(loss / accum).backward()
                    scaler.unscale_(optimizer)
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            "Unscale, clip, step, update: once per window.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        with torch.autocast("cpu", dtype=torch.bfloat16):
                            loss = F.mse_loss(model(features[pick]), values[pick])
                        (loss / accum).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "bfloat16 needs no scaler.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator


            def train(model, features, values, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4, mixed_precision="fp16")
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
            "`accelerator.clip_grad_norm_` unscales by itself.",
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
                        with torch.autocast(device, dtype=torch.float16):
                            loss = F.mse_loss(model(features[pick]), values[pick])
                        scaler.scale(loss / accum).backward()
                    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)  # <- here
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            from torch.nn.utils import clip_grad_value_


            class AmpLoop:
                def __init__(self, model, optimizer, scaler, accum=4):
                    self.model, self.optimizer, self.scaler, self.accum = model, optimizer, scaler, accum
                    self.loss = torch.nn.MSELoss()

                def apply(self):
                    clip_grad_value_(self.model.parameters(), 0.01)  # <- here
                    self.scaler.unscale_(self.optimizer)
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
            "Unscaling comes one line too late.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, stream, optimizer, scaler, updates, accum=4):
                params = list(model.parameters())
                for _ in range(updates):
                    count = 0
                    for _ in range(accum):
                        ids, labels = next(stream)
                        logits = model(ids).flatten(0, 1)
                        loss = F.cross_entropy(logits, labels.flatten(), ignore_index=-100, reduction="sum")
                        scaler.scale(loss).backward()
                        count += int((labels != -100).sum())
                    for p in params:
                        p.grad /= max(count, 1)
                    torch.nn.utils.clip_grad_norm_(params, 0.1)  # <- here
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
            """,
            "The count is right, the scale is still in the gradient.",
        ),
    )
