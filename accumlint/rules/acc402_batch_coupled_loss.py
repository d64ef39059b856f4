from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Rule, example
from accumlint.rules.words import brief


class BatchCoupledLoss(Rule):
    """The loss couples the examples of a batch, so that splitting the batch changes the loss itself.

    ## What it does
    Reports the backward call of an accumulating loop whose loss compares the examples of its batch with each other:
    contrastive losses and in-batch negatives, one sum over the batch divided by another (Dice), and the metric
    learning, contrastive and Dice losses of known libraries.

    ## Why it is bad
    `g = sum_k S_k / sum_k n_k` presumes that the loss of a batch is a sum over its examples. With in-batch negatives an
    example is compared with the others of its microbatch: 4 microbatches of 8 give 7 negatives, one batch of 32 gives
    31. Measured on InfoNCE with the best possible weights of the microbatches, at least half of the gradient's length
    stays wrong (Dice over the batch: 2 to 4 %).

    ## Exceptions
    Silent for losses of single examples or of pairs given by the data, and for two-pass methods that cache the
    embeddings of the whole window (GradCache). A hand-written covariance or ranking loss is not recognised.
    Accumulating a contrastive loss is a different, smaller objective rather than a mistake; that is why this rule is
    off by default.

    ## References
    - mdiephuis/SimCLR#13
    - Gao et al., Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup (GradCache), 2021
    """

    code = "ACC402"
    name = "batch-coupled-loss"
    clause = Clause.BATCH_COUPLED
    summary = "the loss couples the examples of a batch: no weighting makes it equal to the full batch"
    opt_in = True
    repair = None
    repair_safety = "There is no repair by weighting: cache the embeddings of the window, or gather them."

    def message(self, violation: Violation) -> str:
        """`detail` says what couples the examples ("in-batch negatives"), if known."""
        what = brief(violation.detail) or "the loss"
        verb = "couple" if what.endswith("s") and not what.endswith("ss") else "couples"
        return (
            f"{what} {verb} the examples of a microbatch: the sum over the window is another objective than the full "
            "batch's, whatever the weights"
        )

    def hint(self, violation: Violation) -> str:
        return "cache the embeddings of the whole window (GradCache), or accept the smaller objective"

    good = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(encoder, anchors, positives, negatives, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(anchors), (8,))
                        loss = F.triplet_margin_loss(
                            encoder(anchors[pick]), encoder(positives[pick]), encoder(negatives[pick])
                        )
                        (loss / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "The negatives come from the data: each triplet has its own loss.",
        ),
        example(
            """
            import torch


            class Regressor:
                def __init__(self, net, optimizer, accum=4):
                    self.net, self.optimizer, self.accum = net, optimizer, accum
                    self.criterion = torch.nn.SmoothL1Loss()

                def fit(self, features, values, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(features), (8,))
                        loss = self.criterion(self.net(features[pick]), values[pick]) / self.accum
                        loss.backward()
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
                            self.optimizer.zero_grad()
            """,
            "A mean over examples: each has its own loss.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F


            def train(encoder, left, right, optimizer, updates):
                for _ in range(updates):
                    pick = torch.randint(len(left), (64,))
                    similarity = F.normalize(encoder(left[pick])) @ F.normalize(encoder(right[pick])).t()
                    loss = F.cross_entropy(similarity / 0.1, torch.arange(64))
                    optimizer.zero_grad()
                    loss.backward()
                    optimizer.step()
            """,
            "No accumulation: the whole batch is there.",
        ),
    )
    bad = (
        example(
            """
            import torch
            import torch.nn.functional as F


            def info_nce(a, b, temperature=0.1):
                similarity = F.normalize(a) @ F.normalize(b).t() / temperature
                return F.cross_entropy(similarity, torch.arange(len(a), device=a.device))


            def train(encoder, left, right, optimizer, updates, accum=4):
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(left), (8,))
                        loss = info_nce(encoder(left[pick]), encoder(right[pick])) / accum
                        loss.backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            from pytorch_metric_learning.losses import NTXentLoss


            class Pretrainer:
                def __init__(self, encoder, optimizer, accum=4):
                    self.encoder, self.optimizer, self.accum = encoder, optimizer, accum
                    self.criterion = NTXentLoss(temperature=0.1)

                def fit(self, images, labels, updates):
                    for i in range(updates * self.accum):
                        pick = torch.randint(len(images), (8,))
                        loss = self.criterion(self.encoder(images[pick]), labels[pick])
                        (loss / self.accum).backward()  # <- here
                        if (i + 1) % self.accum == 0:
                            self.optimizer.step()
                            self.optimizer.zero_grad()
            """,
            "A metric learning loss of a library, in a class.",
        ),
        example(
            """
            import torch
            import torch.nn.functional as F
            from accelerate import Accelerator


            def clip_loss(image, text, scale):
                logits = scale * F.normalize(image) @ F.normalize(text).t()
                target = torch.arange(len(logits), device=logits.device)
                return (F.cross_entropy(logits, target) + F.cross_entropy(logits.t(), target)) / 2


            def train(model, pixels, tokens, optimizer, updates):
                accelerator = Accelerator(gradient_accumulation_steps=4)
                model, optimizer = accelerator.prepare(model, optimizer)
                for _ in range(updates * 4):
                    pick = torch.randint(len(pixels), (16,))
                    with accelerator.accumulate(model):
                        image, text = model(pixels[pick], tokens[pick])
                        accelerator.backward(clip_loss(image, text, 10.0))  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "The symmetric loss of CLIP.",
        ),
        example(
            """
            import torch


            def dice(probability, mask):
                overlap = (probability * mask).sum()
                return 1 - 2 * overlap / (probability.sum() + mask.sum() + 1)


            def train(net, images, masks, optimizer, updates, accum=4):
                for i in range(updates * accum):
                    pick = torch.randint(len(images), (8,))
                    loss = dice(net(images[pick]).sigmoid(), masks[pick])
                    (loss / accum).backward()  # <- here
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "Dice over the batch: one sum over all examples divided by another.",
        ),
    )
