"""The examples of the rules are true: those in plain torch run here, against an update made without their arithmetic.

The oracle watches, it does not read the code: it records every target's loss as the loss functions compute it
(unreduced, with their own graph), the backwards and the optimizer steps, and compares the gradient of each step with
`grad(sum of all target losses of the window) / sum of their weights`, clipped once where the example clips. It also
asks for whole windows (all of K, the last of an epoch excepted), nothing left over, one scheduler step per update.
"""

from __future__ import annotations

import ast
import contextlib
import inspect
import io
import itertools
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import pytest

from accumlint.rules.base import Example, Rule
from accumlint.rules.registry import all_rules

torch = pytest.importorskip("torch")
F = torch.nn.functional

ACCUM = 4
DEFAULT_LOSS_KINDS = {"cross_entropy": F.cross_entropy, "mse_loss": F.mse_loss}
CASES = [
    (f"{rule.code}-{kind}-{number}", rule, shown, kind)
    for rule in all_rules()
    for kind, examples in (("good", rule.good), ("bad", rule.bad))
    for number, shown in enumerate(examples)
]
EXAMPLES = [pytest.param(*case, id=name) for name, *case in CASES]
FRAMEWORKS = ("accelerate", "deepspeed", "lightning", "transformers", "torchvision", "project", "tensorboard")
RANKS = ("torch.distributed", "torch.nn.parallel")
# Weights, windows and steps are right in these; what the rules report is something that the oracle does not watch.
OTHER_FAULT = {"ACC403", "ACC901"}
# Right on the data of this test, which an unseen stream may or may not be like.
DEPENDS_ON_DATA = {"ACC404"}


def plain(source: str) -> bool:
    return not any(word in source for word in (*FRAMEWORKS, *RANKS))


@pytest.mark.parametrize(("rule", "shown", "kind"), EXAMPLES)
def test_compiles_and_lines_exist(rule: Rule, shown: Example, kind: str) -> None:
    tree = ast.parse(shown.source)
    compile(shown.source, f"{rule.code}_{kind}.py", "exec")
    first_lines = {node.lineno for node in ast.walk(tree) if isinstance(node, ast.stmt | ast.expr)}
    for line in (*shown.lines, *(line for _, line in shown.also)):
        assert line in first_lines, shown.source.splitlines()[line - 1]


# ------------------------------------------------------------------------------------------------- the oracle


@dataclass
class Window:
    gradient: list[Any]
    weight: float
    microbatches: int


@dataclass
class Watch:
    params: list[Any]
    losses: list[tuple[Any, float]] = field(default_factory=list)  # since the last backward
    window: Window = field(default_factory=lambda: Window([], 0.0, 0))  # since the last step
    sizes: list[int] = field(default_factory=list)
    errors: list[float] = field(default_factory=list)  # relative L2 of each step's gradient
    schedule: int = 0
    limit: tuple[str, float] | None = None

    def backward(self) -> None:
        total = sum(loss for loss, _ in self.losses)
        parts = torch.autograd.grad(total, self.params, retain_graph=True, allow_unused=True)
        parts = [torch.zeros_like(p) if g is None else g for p, g in zip(self.params, parts, strict=True)]
        old = self.window.gradient or [0.0] * len(parts)
        self.window.gradient = [a + b for a, b in zip(old, parts, strict=True)]
        self.window.weight += sum(weight for _, weight in self.losses)
        self.window.microbatches += 1
        self.losses.clear()

    def step(self) -> None:
        if not self.window.microbatches:  # a second step on the same gradients
            self.sizes.append(0)
            return
        wanted = [g / max(self.window.weight, 1e-9) for g in self.window.gradient]
        if self.limit and self.limit[0] == "norm":
            norm = float(torch.cat([g.flatten() for g in wanted]).norm())
            wanted = [g * min(1.0, self.limit[1] / (norm + 1e-6)) for g in wanted]
        elif self.limit:
            wanted = [g.clamp(-self.limit[1], self.limit[1]) for g in wanted]
        found = [torch.zeros_like(p) if p.grad is None else p.grad for p in self.params]
        off = torch.cat([(a - b).flatten() for a, b in zip(found, wanted, strict=True)]).norm()
        self.errors.append(float(off / (torch.cat([g.flatten() for g in wanted]).norm() + 1e-12)))
        self.sizes.append(self.window.microbatches)
        self.window, self.limit = Window([], 0.0, 0), None

    def right(self, per_epoch: int, accum: int) -> bool:
        tail = per_epoch % accum
        whole = self.sizes[0] == accum and all(size in (accum, tail) for size in self.sizes)
        whole = whole or accum == 1
        schedule = self.schedule <= len(self.sizes)
        return whole and schedule and not self.window.microbatches and max(self.errors) < 1e-6


def recorded(watch: Watch, real: Callable[..., Any]) -> Callable[..., Any]:
    """`real`, which also hands its unreduced losses to the watch; a target of -100 counts nothing."""

    def loss(prediction: Any, target: Any, *args: Any, **kwargs: Any) -> Any:
        single = {name: value for name, value in kwargs.items() if name in ("weight", "ignore_index")}
        each = real(prediction, target, reduction="none", **single)
        if target.is_floating_point():
            weight = float(target.numel())
        else:
            kept = target != -100
            chosen = single.get("weight")
            weight = float((torch.ones_like(target) if chosen is None else chosen[target])[kept].sum())
        watch.losses.append((each.sum(), weight))
        return real(prediction, target, *args, **kwargs)

    return loss


@contextlib.contextmanager
def watching(watch: Watch) -> Iterator[None]:
    tensor_backward = torch.Tensor.backward
    clips = {"norm": torch.nn.utils.clip_grad_norm_, "value": torch.nn.utils.clip_grad_value_}

    def backward(self: Any, *args: Any, **kwargs: Any) -> None:
        watch.backward()
        tensor_backward(self, *args, **kwargs)

    def clip(kind: str) -> Callable[..., Any]:
        def clipped(parameters: Any, limit: float) -> Any:
            watch.limit = (kind, limit)
            return clips[kind](parameters, limit)

        return clipped

    schedule_step = torch.optim.lr_scheduler.LambdaLR.step

    def scheduled(self: Any, *args: Any) -> None:
        watch.schedule += self.last_epoch >= 0  # the first call is the constructor's
        schedule_step(self, *args)

    with contextlib.ExitStack() as stack:
        for name, real in DEFAULT_LOSS_KINDS.items():
            stack.enter_context(mock.patch.object(F, name, recorded(watch, real)))
        stack.enter_context(mock.patch.object(torch.Tensor, "backward", backward))
        stack.enter_context(mock.patch.object(torch.nn.utils, "clip_grad_norm_", clip("norm")))
        stack.enter_context(mock.patch.object(torch.nn.utils, "clip_grad_value_", clip("value")))
        stack.enter_context(mock.patch.object(torch.optim.lr_scheduler.LambdaLR, "step", scheduled))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        yield


def tiny_model(tokens: bool) -> Any:
    """7 words, or rows of 6 floats to 3 outputs; with a bend in the middle."""
    first, width, outputs = (torch.nn.Embedding(7, 5), 5, 7) if tokens else (torch.nn.Linear(6, 5), 5, 3)
    return torch.nn.Sequential(first, torch.nn.Tanh(), torch.nn.Linear(width, outputs)).double()


# ------------------------------------------------------------------------------------------------- the world


def world(batches: int, tokens: bool) -> dict[str, Any]:
    """Everything that an example may ask for, by the name of its parameter."""
    torch.manual_seed(batches)
    model = tiny_model(tokens)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = []
    for number in range(batches):
        ids = torch.randint(0, 7, (2, 6))
        labels = torch.where(torch.rand(2, 6) < 0.15 * (number % 6) + 0.05, -100, torch.randint(0, 7, (2, 6)))
        labels[0, 0] = 1
        loader.append((ids, labels))
    triples = [(ids, labels, (labels != -100).double()) for ids, labels in loader]
    size = 2 * batches - 1
    rows = torch.utils.data.TensorDataset(torch.randn(size, 6).double(), torch.randint(0, 3, (size,)))
    features, values = torch.randn(40, 6).double(), torch.randn(40, 3).double()
    loose = [(features[:n], torch.randint(0, 3, (n,))) for n in (1, 3, 2, 4)]
    return {
        "model": model,
        "optimizer": optimizer,
        "scheduler": torch.optim.lr_scheduler.LambdaLR(optimizer, lambda t: 1 / (1 + t)),
        "scaler": torch.amp.GradScaler("cpu"),
        "loader": loader,
        "data_loader": list(torch.utils.data.DataLoader(rows, batch_size=2)),
        "stream": itertools.cycle(loader),
        "batches": itertools.cycle(loose),
        "window": triples[:ACCUM],
        "windows": [loader[n : n + ACCUM] for n in range(0, len(loader), ACCUM)],
        "dataset": rows,
        "criterion": torch.nn.CrossEntropyLoss(),
        "class_weights": torch.tensor([0.2, 1.0, 3.0]).double(),
        "tokens": torch.randint(0, 7, (60,)),
        "features": features,
        "values": values,
        "updates": 3,
        "epochs": 2,
        "accum": ACCUM,
        "accumulation_steps": ACCUM,
        "device": "cpu",
        "args": types.SimpleNamespace(accum=ACCUM, epochs=2),
    }


def run(source: str, batches: int) -> Watch:
    """Run an example in a new world: its last function, or its last class and that one's last method."""
    given = world(batches, tokens=not any(word in source for word in ("features", "dataset", "data_loader", "batches")))
    watch = Watch(list(given["model"].parameters()))
    names: dict[str, Any] = {"__name__": "example"}

    def call(function: Any) -> Any:
        wanted = [name for name in inspect.signature(function).parameters if name in given]
        return function(**{name: given[name] for name in wanted})

    with watching(watch):
        exec(compile(source, "example.py", "exec"), names)
        defined = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
        target = names[defined[-1].name]
        given["optimizer"].register_step_pre_hook(lambda *_: watch.step())
        if inspect.isclass(target):
            methods = [name for name in vars(target) if not name.startswith("__")]
            driver = getattr(call(target), methods[-1])
            call(driver)
        else:
            call(target)
    return watch


RUNNABLE = [
    pytest.param(rule, shown, kind, id=name)
    for name, rule, shown, kind in CASES
    if plain(shown.source) and rule.code not in {"ACC401", "ACC402"}
]


@pytest.mark.filterwarnings("ignore:Detected call of `lr_scheduler.step")  # the fault of ACC306
@pytest.mark.parametrize(("rule", "shown", "kind"), RUNNABLE)
def test_against_the_full_batch(rule: Rule, shown: Example, kind: str) -> None:
    accumulates = "accum" in shown.source
    right = []
    for batches in (11, 12):  # with and without a partial window; the last batch of a dataset is short in both
        try:
            watch = run(shown.source, batches)
        except RuntimeError as error:
            if kind == "good" or "unscale_() has already been called" not in str(error):
                raise
            right.append(False)  # torch itself refuses it
            continue
        assert watch.sizes, "the example never steps"
        per_epoch = batches - 1 if "drop_last=True" in shown.source else batches
        right.append(watch.right(per_epoch, ACCUM if accumulates else 1))
        detail = (watch.sizes, watch.errors, watch.schedule, watch.window.microbatches)
        if kind == "good" and "ACC101" not in shown.source:
            assert right[-1], detail
    if kind == "bad" and rule.code not in OTHER_FAULT | DEPENDS_ON_DATA:
        assert not all(right)


def test_the_oracle_sees_faults_and_rightness() -> None:
    """The oracle itself: one loop that is right by hand, and the same with each part of the check broken."""
    loop = """
import torch.nn.functional as F

def train(model, loader, optimizer, accum=4):
    for i, (ids, labels) in enumerate(loader):
        loss = F.cross_entropy(model(ids).flatten(0, 1), labels.flatten(), reduction="sum")
        loss.backward()
        if i % 4 == 3:
            n = sum(int((y != -100).sum()) for _, y in loader[i - 3 : i + 1])
            for p in model.parameters():
                p.grad /= n
            optimizer.step()
            optimizer.zero_grad()
"""
    assert run(loop, 12).right(12, ACCUM)
    assert not run(loop, 11).right(11, ACCUM)  # three microbatches are left over
    for old, new in (("/= n", "/= n + 1"), ("i % 4 == 3", "i % 4 == 2"), ("        optimizer.zero_grad()\n", "\n")):
        assert not run(loop.replace(old, new), 12).right(12, ACCUM), new
