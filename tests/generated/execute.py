"""Runs a program with torch and reads the truth off what happened.

`run` executes the source in a tiny world and records every backward, clip, step, clear, scheduler and scaler call with
the line it came from and the gradient around it. `truth` reads the broken clauses off several such runs; it never looks
at how the program was composed, except for the lines that no event can tell (the `if` of the boundary, the second
division). `equals_full_batch` asks only whether every update was the full-batch update.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import ModuleType, SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from tests.generated.world import PATTERN, Data, Examples, Net, make_data, sum_gradient

FILENAME = "<generated program>"
CLIP_NORM, CLIP_VALUE = 0.05, 0.01
EPOCHS = 2


@dataclass
class Event:
    """One thing that happened, with the gradient before and after it (as it stood: times `scale` while scaled)."""

    kind: str  # backward, clip, step, clear, sched, unscale, update, epoch, end
    line: int = 0
    before: torch.Tensor | None = None
    after: torch.Tensor | None = None
    scale: float = 1.0
    scaled: bool = False  # the gradients still carry the loss scale
    examples: tuple[int, ...] = ()
    coefficient: float = 0.0  # of this microbatch's loss sum, in what the backward added
    count: float = 0.0
    reference: torch.Tensor | None = None  # gradient of the microbatch's loss sum
    extra: Any = None


@dataclass
class Setting:
    """One run: K, microbatches a pass, and whether the last batch is short."""

    k: int
    total: int
    short: bool = False
    seed: int = 0
    batch: int = 2


@dataclass
class Recorder:
    data: Data
    events: list[Event] = field(default_factory=list)
    model: Net | None = None
    seen: list[int] = field(default_factory=list)
    scaler: Any = None

    def gradient(self) -> torch.Tensor:
        assert self.model is not None
        return torch.cat(
            [
                (torch.zeros_like(p) if p.grad is None else p.grad.detach().clone()).flatten()
                for p in self.model.parameters()
            ]
        )

    def forward(self, x: torch.Tensor) -> None:
        if torch.is_grad_enabled():
            self.seen.extend(self.data.index(x))

    def add(self, kind: str, **values: Any) -> Event:
        event = Event(kind, _line(), **values)
        self.events.append(event)
        return event

    def scaled(self, optimizer: Any = None) -> bool:
        """Do the gradients carry the scale: nothing has unscaled them since the last update."""
        if self.scaler is None or not self.scaler.is_enabled():
            return False
        stages = [str(state["stage"]) for state in self.scaler._per_optimizer_states.values()]
        return not any("UNSCALED" in stage or "STEPPED" in stage for stage in stages)


def _line() -> int:
    """The line of the innermost frame that belongs to the program; 0 if there is none."""
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == FILENAME:
            return frame.f_lineno
        frame = frame.f_back  # type: ignore[assignment]
    return 0


def _called_by_program(depth: int = 2) -> bool:
    return sys._getframe(depth).f_code.co_filename == FILENAME


@contextmanager
def recording(recorder: Recorder) -> Iterator[None]:
    """Patch torch so that the recorder sees what the program does to gradients and clocks."""
    originals = {
        "backward": torch.Tensor.backward,
        "norm": torch.nn.utils.clip_grad_norm_,
        "value": torch.nn.utils.clip_grad_value_,
        "zero": torch.optim.Optimizer.zero_grad,
        "module_zero": torch.nn.Module.zero_grad,
        "sched": torch.optim.lr_scheduler.LRScheduler.step,
        "unscale": torch.amp.GradScaler.unscale_,
        "update": torch.amp.GradScaler.update,
        "scale": torch.amp.GradScaler.scale,
        "iter": torch.utils.data.DataLoader.__iter__,
    }

    def backward(tensor: torch.Tensor, *args: Any, **kwargs: Any) -> None:
        before = recorder.gradient()
        reference, count = sum_gradient(recorder.data, recorder.model, recorder.seen)  # type: ignore[arg-type]
        originals["backward"](tensor, *args, **kwargs)
        after = recorder.gradient()
        scale = (
            float(recorder.scaler.get_scale()) if recorder.scaler is not None and recorder.scaler.is_enabled() else 1.0
        )
        added = (after - before) / scale
        square = float(reference @ reference)
        coefficient = float(added @ reference) / square if square else 0.0
        residual = float((added - coefficient * reference).norm()) / (float(added.norm()) or 1.0)
        recorder.add(
            "backward",
            before=before,
            after=after,
            scale=scale,
            examples=tuple(recorder.seen),
            coefficient=coefficient,
            count=count,
            reference=reference,
            extra=residual,
        )
        recorder.seen = []

    def around(kind: str, original: Callable[..., Any], inner: str = "") -> Callable[..., Any]:
        """Record a call. One that torch makes itself (unscale_ inside step) is recorded as `inner`, or not at all."""

        def call(*args: Any, **kwargs: Any) -> Any:
            by_torch = kind in ("sched", "unscale", "update") and not _called_by_program()
            if by_torch and not inner:
                return original(*args, **kwargs)
            before, scaled = recorder.gradient(), recorder.scaled()
            scale = (
                float(recorder.scaler.get_scale())
                if recorder.scaler is not None and recorder.scaler.is_enabled()
                else 1.0
            )
            result = original(*args, **kwargs)
            recorder.add(
                inner if by_torch else kind,
                before=before,
                after=recorder.gradient(),
                scale=scale,
                scaled=scaled,
                extra=kwargs or args[1:],
            )
            return result

        return call

    def scale(scaler: Any, *args: Any) -> Any:
        recorder.scaler = scaler
        return originals["scale"](scaler, *args)

    def start(loader: Any) -> Any:
        recorder.add("epoch", before=recorder.gradient())
        return originals["iter"](loader)

    def stepped(optimizer: Any, *_: Any) -> None:
        gradient = recorder.gradient()
        recorder.add("step", before=gradient, after=gradient, scaled=recorder.scaled(optimizer))

    handle = register_optimizer_step_pre_hook(stepped)
    norm, value = around("clip", originals["norm"]), around("clip", originals["value"])
    patches = [
        mock.patch.object(torch.Tensor, "backward", backward),
        mock.patch.object(torch.nn.utils, "clip_grad_norm_", norm),
        mock.patch.object(torch.nn.utils, "clip_grad_value_", value),
        mock.patch.object(torch.nn.utils.clip_grad, "clip_grad_norm_", norm),
        mock.patch.object(torch.nn.utils.clip_grad, "clip_grad_value_", value),
        mock.patch.object(torch.optim.Optimizer, "zero_grad", around("clear", originals["zero"])),
        mock.patch.object(torch.nn.Module, "zero_grad", around("clear", originals["module_zero"])),
        mock.patch.object(torch.optim.lr_scheduler.LRScheduler, "step", around("sched", originals["sched"])),
        mock.patch.object(
            torch.amp.GradScaler, "unscale_", around("unscale", originals["unscale"], inner="unscale inside step")
        ),
        mock.patch.object(torch.amp.GradScaler, "update", around("update", originals["update"])),
        mock.patch.object(torch.amp.GradScaler, "scale", scale),
        mock.patch.object(torch.utils.data.DataLoader, "__iter__", start),
    ]
    try:
        with ExitStack() as stack:
            for patch in patches:
                stack.enter_context(patch)
            yield
    finally:
        handle.remove()


class Batches:
    """A loader given from outside: a list of batches that tells the recorder when a pass begins."""

    def __init__(self, batches: list[Any], recorder: Recorder) -> None:
        self.batches, self.recorder = batches, recorder

    def __len__(self) -> int:
        return len(self.batches)

    def __iter__(self) -> Iterator[Any]:
        self.recorder.add("epoch", before=self.recorder.gradient())
        return iter(self.batches)


def batches(data: Data, setting: Setting, names: dict[str, str] | None, total: int) -> list[Any]:
    """`total` batches of two examples, the last one shorter where the setting says so."""
    made = []
    for b in range(total):
        rows = [i % len(data) for i in range(b * setting.batch, (b + 1) * setting.batch)]
        if setting.short and b == total - 1:
            rows = rows[:1]
        parts = [data.x[rows], data.y[rows]] + ([data.m[rows]] if data.m is not None else [])
        made.append(tuple(parts) if names is None else dict(zip((names[k] for k in "xym"), parts, strict=False)))
    return made


def mean_cross_entropy(out: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.cross_entropy(out, y)


def run(source: str, entry: str, features: dict[str, Any], setting: Setting) -> Recorder:
    """Execute the program once and return what was recorded."""
    torch.set_num_threads(1)
    family = features["loss"]
    size = setting.total * setting.batch - (1 if setting.short else 0)
    data = make_data(
        family,
        size,
        setting.seed,
        features["ignore_value"],
        features.get("pattern", PATTERN),
        features.get("class_scale", 1.0),
    )
    recorder = Recorder(data)
    torch.manual_seed(setting.seed)
    model = recorder.model = Net(family, recorder)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    names = features["token_keys"] if features["batch"] == "dict" else None
    clip = CLIP_VALUE if features["clip"] == "value" else CLIP_NORM
    updates = 3
    endless = batches(data, Setting(setting.k, setting.total, batch=setting.batch), names, updates * setting.k * EPOCHS)
    made: dict[str, Callable[[], Any]] = {
        "model": lambda: model,
        "optimizer": lambda: optimizer,
        "k": lambda: setting.k,
        "clip": lambda: clip,
        "epochs": lambda: EPOCHS,
        "updates": lambda: updates,
        "device": lambda: "cpu",
        "amp": lambda: False,
        "loader": lambda: Batches(batches(data, setting, names, setting.total), recorder),
        "stream": lambda: iter(endless),
        "dataset": lambda: Examples(data, names),
        "batch_size": lambda: setting.batch,
        "scheduler": lambda: torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: 1.0 / (1 + s)),
        "scaler": lambda: torch.amp.GradScaler("cpu", init_scale=2.0**10),
        "class_weights": lambda: data.weights,
        "criterion": lambda: mean_cross_entropy,
        "x_all": lambda: data.x,
        "y_all": lambda: data.y,
        "m_all": lambda: data.m,
        "corpus": lambda: data.corpus,
        "micro_size": lambda: setting.batch,
    }
    call = features["call"]
    made["args"] = lambda: SimpleNamespace(**{name: made[role]() for name, role in call["fields"].items()})

    def values(roles: dict[str, str]) -> dict[str, Any]:
        return {name: made[role]() for name, role in roles.items()}

    with recording(recorder), mock.patch.dict(sys.modules):
        module = ModuleType("generated_program")  # dataclasses look their module up by name
        sys.modules[module.__name__] = module
        scope = module.__dict__
        exec(compile(source, FILENAME, "exec"), scope)
        for name, role in call["consts"].items():
            scope[name] = made[role]()
        target = scope[entry]
        if call["method"]:
            target = getattr(target(**values(call["init"])), call["method"])
        target(**values(call["args"]))
        recorder.add("end", before=recorder.gradient())
    return recorder
