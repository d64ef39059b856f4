from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.rules.base import Rule, example
from accumlint.rules.words import brief


class BatchNormAccumulation(Rule):
    """BatchNorm in train mode normalises every microbatch by its own statistics.

    ## What it does
    Reports the backward call of an accumulating loop in a file whose model has a BatchNorm layer, or is one of
    torchvision's that have.

    ## Why it is bad
    `g = sum_k S_k / sum_k n_k` is the full-batch gradient only if an example's loss does not depend on its neighbours.
    BatchNorm makes it depend on the mean and variance of its own microbatch. With 4 microbatches of 4 the layer sees
    4 examples, not 16; measured with the best possible weights of the microbatches, at least 44 % of the gradient
    stays wrong. The running statistics are also updated 4 times per window instead of once.

    ## Exceptions
    Silent for LayerNorm, GroupNorm, RMSNorm and InstanceNorm, for loops that do not accumulate, for a model in eval
    mode at its backward, and where layers are put into eval mode because they are BatchNorm. A model that comes from
    another file is not looked into. `SyncBatchNorm` joins ranks, not microbatches.

    ## References
    - ultralytics/yolov5#1630
    - https://docs.pytorch.org/docs/stable/generated/torch.nn.BatchNorm2d.html
    """

    code = "ACC401"
    name = "batch-norm-accumulation"
    clause = Clause.BATCH_NORM
    summary = "BatchNorm in train mode under accumulation: no weighting makes it equal to the full batch"
    opt_in = True
    repair = None
    repair_safety = "There is no repair: the model has to change (GroupNorm, or BatchNorm frozen in eval mode)."

    def message(self, violation: Violation) -> str:
        """`detail` is the layer's source text, if known; `window` the number of microbatches."""
        layer = brief(violation.detail) or "BatchNorm"
        return (
            f"{layer} in train mode normalises every microbatch by its own statistics: no weighting makes the window "
            "equal to the full batch; use GroupNorm or freeze it"
        )

    def hint(self, violation: Violation) -> str:
        return "replace BatchNorm by GroupNorm, or keep it in eval mode"

    good = (
        example(
            """
            import torch
            from torch import nn


            def train(features, values, updates, accum=4):
                model = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3)).to(features.dtype)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (nn.functional.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "LayerNorm normalises each example by itself.",
        ),
        example(
            """
            import torch
            from torch import nn


            class Net(nn.Module):
                def __init__(self, classes):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
                    self.norm = nn.GroupNorm(4, 16)
                    self.head = nn.Linear(16, classes)

                def forward(self, x):
                    return self.head(torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3)))


            def fit(images, labels, updates, accum=4):
                model = Net(10)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for i in range(updates * accum):
                    pick = torch.randint(len(images), (8,))
                    (nn.functional.cross_entropy(model(images[pick]), labels[pick]) / accum).backward()
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "GroupNorm too.",
        ),
        example(
            """
            import torch
            from torch import nn


            def train(features, values, updates):
                model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
                model = model.to(features.dtype)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(updates):
                    pick = torch.randint(len(features), (32,))
                    optimizer.zero_grad()
                    nn.functional.mse_loss(model(features[pick]), values[pick]).backward()
                    optimizer.step()
            """,
            "No accumulation.",
        ),
        example(
            """
            import torch
            from torch import nn


            def finetune(features, values, updates, accum=4):
                model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                model.eval()
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (nn.functional.mse_loss(model(features[pick]), values[pick]) / accum).backward()
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "A frozen BatchNorm: in eval mode it uses its running statistics.",
        ),
    )
    bad = (
        example(
            """
            import torch
            from torch import nn


            def train(features, values, updates, accum=4):
                model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 3))
                model = model.to(features.dtype)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(features), (8,))
                        (nn.functional.mse_loss(model(features[pick]), values[pick]) / accum).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
        ),
        example(
            """
            import torch
            from torch import nn
            from torch.utils.data import DataLoader


            class Net(nn.Module):
                def __init__(self, classes):
                    super().__init__()
                    self.conv = nn.Conv2d(3, 16, 3, padding=1, bias=False)
                    self.norm = nn.BatchNorm2d(16)
                    self.head = nn.Linear(16, classes)

                def forward(self, x):
                    return self.head(torch.relu(self.norm(self.conv(x))).mean(dim=(2, 3)))


            def fit(images, classes, accum=4):
                loader = DataLoader(images, batch_size=4, shuffle=True, drop_last=True)
                model = Net(classes)
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                usable = len(loader) // accum * accum
                for i, (x, y) in enumerate(loader):
                    if i >= usable:
                        break
                    loss = nn.functional.cross_entropy(model(x), y) / accum
                    loss.backward()  # <- here
                    if (i + 1) % accum == 0:
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "In a module of the same file.",
        ),
        example(
            """
            import torch
            from accelerate import Accelerator
            from torch import nn


            def finetune(images, labels, updates):
                accelerator = Accelerator(gradient_accumulation_steps=8)
                model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.Flatten(), nn.LazyLinear(10))
                optimizer = torch.optim.AdamW(model.parameters())
                model, optimizer = accelerator.prepare(model, optimizer)
                model.train()
                for _ in range(updates * 8):
                    pick = torch.randint(len(images), (4,))
                    with accelerator.accumulate(model):
                        loss = nn.functional.cross_entropy(model(images[pick]), labels[pick])
                        accelerator.backward(loss)  # <- here
                        optimizer.step()
                        optimizer.zero_grad()
            """,
            "With Accelerate.",
        ),
        example(
            """
            import torch
            import torchvision


            def train(images, labels, updates, accum=8):
                model = torchvision.models.resnet18(num_classes=10)
                optimizer = torch.optim.AdamW(model.parameters())
                model.train()
                for _ in range(updates):
                    for _ in range(accum):
                        pick = torch.randint(len(images), (4,))
                        loss = torch.nn.functional.cross_entropy(model(images[pick]), labels[pick])
                        (loss / accum).backward()  # <- here
                    optimizer.step()
                    optimizer.zero_grad()
            """,
            "A model of torchvision that holds BatchNorm.",
        ),
    )
