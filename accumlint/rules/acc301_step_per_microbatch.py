from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Repair, Rule, example
from accumlint.rules.words import call_name, is_symbolic, known_steps, plural, steps_name


class StepPerMicrobatch(Rule):
    """The optimizer steps on every microbatch of a loop that means to accumulate.

    ## What it does
    Reports an optimizer step that runs for every microbatch, where the loop shows that it means to accumulate: the loss
    is divided by a number of steps, or `zero_grad`, the clip or the scheduler wait for a window boundary.

    ## Why it is bad
    The weights should stay fixed during a window, and one step should apply `g = sum_k S_k / sum_k n_k`. A step for
    each microbatch applies the partial sums: the first microbatch of 4 is applied four times, the second three times,
    the last once, each at other weights. With `zero_grad` at the boundary only, the sum of all updates is
    (4 + 3 + 2 + 1) / 4 = 2.5x the intended one for equal microbatches; with a momentum optimizer, more.

    ## Exceptions
    Silent for objects that count by themselves: an optimizer from `accelerator.prepare` inside `accumulate`, and
    `engine.step()` of DeepSpeed. Also for plain loops, for several optimizers with one step each (GAN), SAM's two
    passes, LBFGS closures, truncated BPTT and PPO minibatches.

    ## References
    - thunlp/OpenPrompt#106, huggingface/accelerate#435
    - https://docs.pytorch.org/docs/stable/notes/amp_examples.html#gradient-accumulation
    """

    code = "ACC301"
    name = "step-per-microbatch"
    clause = Clause.STEP_COUNT
    summary = "the optimizer steps on every microbatch of a loop that means to accumulate"
    repair = Repair.MOVE
    repair_safety = (
        "Safe where the boundary is in sight and the repaired loop is proved and executed: the step moves under it. "
        "Unsafe where the only sign of accumulation is the division, because the boundary has to be guessed."
    )

    def message(self, violation: Violation) -> str:
        """`subject` is the step call, `times` how often it ran in the window; K's name is `divisor`."""
        call = call_name(violation, "the optimizer step")
        known = known_steps(violation)
        if known and violation.times > 1:
            text = f"{call} runs {violation.times} times in a window of {plural(known, 'microbatch')}"
        elif is_symbolic(violation):
            text = f"{call} runs on every microbatch, {steps_name(violation)} times per window"
        else:
            text = f"{call} runs on every microbatch of the window"
        return f"{text}: partial sums are applied again and again; step once, at the boundary"

    def hint(self, violation: Violation) -> str:
        return "move the step under the boundary test"

    good = (
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
            """,
            "One step per window.",
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
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "A prepared optimizer does nothing between the boundaries.",
        ),
        example(
            """
            import deepspeed
            import torch
            import torch.nn.functional as F

            CONFIG = {"train_micro_batch_size_per_gpu": 8, "gradient_accumulation_steps": 4}


            def train(model, features, values, updates):
                engine, *_ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=CONFIG)
                for _ in range(updates * 4):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(engine(features[pick]), values[pick])
                    engine.backward(loss)
                    engine.step()
            """,
            "`engine.step()` counts the microbatches itself.",
        ),
        example(
            """
            import torch.nn.functional as F


            def train(model, loader, optimizer, scheduler, log_every=2):
                for i, (ids, labels) in enumerate(loader):
                    optimizer.zero_grad()
                    loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten())
                    loss.backward()
                    optimizer.step()
                    scheduler.step()
                    if (i + 1) % log_every == 0:
                        print(f"batch {i + 1}: {loss.item():.3f}")
            """,
            "A plain loop: the modulo only guards the log.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    loss = F.mse_loss(model(features[pick]), values[pick]) / accum
                    loss.backward()
                    optimizer.step()  # <- here
                    if (i + 1) % accum == 0:
                        optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, tokens, optimizer, scheduler, updates, accum=4, block=8):
                for _ in range(updates):
                    optimizer.zero_grad()
                    for _ in range(accum):
                        starts = torch.randint(len(tokens) - block - 1, (2,)).tolist()
                        rows = torch.stack([tokens[s : s + block + 1] for s in starts])
                        loss = F.cross_entropy(model(rows[:, :-1]).flatten(0, 1), rows[:, 1:].flatten())
                        (loss / accum).backward()
                        optimizer.step()  # <- here
                    scheduler.step()
            """,
            "The step is indented one level too deep.",
        ),
        example(
            """
            import torch


            class Trainer:
                def __init__(self, model, optimizer, accum=4):
                    self.model, self.optimizer, self.accum = model, optimizer, accum
                    self.criterion = torch.nn.MSELoss()

                def backward_and_step(self, x, y):
                    (self.criterion(self.model(x), y) / self.accum).backward()
                    self.optimizer.step()  # <- here

                def fit(self, features, values, updates):
                    pending = 0
                    for _ in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        self.backward_and_step(features[pick], values[pick])
                        pending += 1
                        if pending < self.accum:
                            continue
                        self.optimizer.zero_grad()
                        pending = 0
            """,
            "The step runs before the `continue` of the inner microbatches.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(model, features, values, optimizer, scaler, updates, accum=4, device="cuda"):
                for i in range(updates * accum):
                    pick = torch.randint(len(features), (8,))
                    with torch.autocast(device, dtype=torch.float16):
                        loss = F.mse_loss(model(features[pick]), values[pick])
                    scaler.scale(loss / accum).backward()
                    scaler.step(optimizer)  # <- here
                    scaler.update()  # <- ACC307
                    if (i + 1) % accum == 0:
                        optimizer.zero_grad(set_to_none=True)
            """,
            "Step and scaler run for every microbatch, only clearing waits.",
        ),
    )
