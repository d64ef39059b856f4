"""Runs the text of a training script on a tiny fp64 problem and compares every optimizer step with the full batch.

A `Problem` says which model is watched, which examples exist, how the loss of any set of examples is computed in one
forward pass (its sum and its count), how the script's entry is called and how many microbatches each optimizer step is
meant to hold. `drive(text, build)` executes the text with hooks on the model, on `Optimizer.step`, on the clipping
functions, on schedulers and on `GradScaler`, and returns a `Report`:

    report = drive(path.read_text(), build)
    report.right, sorted(report.faults), report.describe()

Nothing here uses accumlint: which examples entered a step is found by looking the rows that the model saw up among the
problem's examples, and the reference is one forward pass of a twin model, at the parameters of that step, over all of
them. Clipping is made active by replacing the script's limit by a small one, on both sides.

| fault | meaning |
|---|---|
| gradient | the gradient of some step, before clipping, is not the full batch's |
| clip | the clipped gradient of some step is not the full batch's clipped gradient |
| clips | more than one clip for one step |
| windows | the steps do not hold the microbatches they are meant to hold |
| leftover | microbatches after the last step never reach the parameters |
| schedule | an LR scheduler moves more than once for one step |
| scaler | `unscale_` or `update` of a GradScaler runs more than once for one step |
| raised | the script raised |
"""

from __future__ import annotations

import contextlib
import copy
import io
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from unittest import mock

import torch
from torch import nn
from torch.optim.optimizer import register_optimizer_step_pre_hook

ACTIVE_NORM = 1e-2  # far below the gradients of the tiny problems, so that every clip acts
ACTIVE_VALUE = 1e-3
FP64 = 1e-12  # global relative L2; `n_k / n` of two int tensors would need 1e-7

Columns = Mapping[str, torch.Tensor]
Count = torch.Tensor | float


@dataclass(frozen=True)
class Examples:
    """All examples of a problem: `keys[i]` is what the model sees of example i, `columns[...][i]` what its loss."""

    keys: torch.Tensor
    columns: Columns = field(default_factory=dict)

    def __post_init__(self) -> None:
        if torch.unique(self.keys.flatten(1), dim=0).size(0) != self.keys.size(0):
            raise ValueError("two examples look the same to the model")

    def find(self, rows: torch.Tensor) -> tuple[int, ...]:
        """The examples shown in `rows`; LookupError for a row that is none of them."""
        keys, shown = self.keys.flatten(1)[None], rows.detach().flatten(1)[:, None]
        same = ((keys - shown).abs() < 1e-9).all(-1)  # recomputed features may differ in the last digit
        if not bool(same.any(1).all()):
            raise LookupError("the model was shown a row that is no example")
        return tuple(same.int().argmax(1).tolist())

    def take(self, indices: list[int]) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        return self.keys[indices], {name: column[indices] for name, column in self.columns.items()}


def first_argument(args: tuple[object, ...], kwargs: Mapping[str, object]) -> torch.Tensor | None:
    shown = args[0] if args else next(iter(kwargs.values()))
    assert isinstance(shown, torch.Tensor)
    return shown


@dataclass
class Problem:
    """One way to call a script. `model` is None if the script builds it: then `run` calls `recorder.watch`."""

    model: nn.Module | None
    examples: Examples
    loss: Callable[[nn.Module, torch.Tensor, Columns], tuple[torch.Tensor, Count]]
    run: Callable[[dict[str, object], Recorder], object]
    windows: tuple[int, ...]
    shown: Callable[[tuple[object, ...], Mapping[str, object]], torch.Tensor | None] = first_argument
    called: nn.Module | None = None  # the part of `model` whose calls are microbatches, if not the whole
    gradient: Callable[[nn.Module, torch.Tensor, Columns], torch.Tensor] | None = None  # instead of the loss's
    modules: Mapping[str, types.ModuleType] = field(default_factory=dict)
    tolerance: float = FP64


@dataclass(frozen=True)
class Step:
    """What one optimizer step used, beside the reference for the same microbatches."""

    microbatches: tuple[tuple[int, ...], ...]
    reference_norm: float
    error: float
    clip_error: float
    clips: int
    active_clips: int
    schedule_moves: int
    scaler_moves: int


@dataclass(frozen=True)
class Report:
    steps: tuple[Step, ...]
    leftover: int
    faults: frozenset[str]
    raised: str | None

    @property
    def right(self) -> bool:
        return not self.faults

    @property
    def windows(self) -> tuple[int, ...]:
        return tuple(len(step.microbatches) for step in self.steps)

    @property
    def error(self) -> float:
        """The largest relative L2 error of a gradient before clipping."""
        return max((step.error for step in self.steps), default=0.0)

    def describe(self) -> str:
        lines = [f"faults: {', '.join(sorted(self.faults)) or 'none'}; left over: {self.leftover} microbatches"]
        if self.raised:
            lines.append(f"raised {self.raised}")
        for number, step in enumerate(self.steps):
            lines.append(
                f"step {number}: {len(step.microbatches)} microbatches, gradient off by {step.error:.1e}, "
                f"clipped by {step.clip_error:.1e}, clips {step.clips} ({step.active_clips} active), "
                f"schedule {step.schedule_moves}, scaler {step.scaler_moves}"
            )
        return "\n".join(lines)


def flat_gradient(model: nn.Module) -> torch.Tensor:
    return torch.cat(
        [(torch.zeros_like(p) if p.grad is None else p.grad).detach().flatten().clone() for p in model.parameters()]
    )


def relative_error(actual: torch.Tensor, expected: torch.Tensor) -> float:
    scale = float(expected.norm())
    off = float((actual - expected).norm()) / (scale if scale > 0 else 1.0)
    return off if off == off else float("inf")


def clipped(gradient: torch.Tensor, kind: str) -> torch.Tensor:
    """What torch documents its clipping functions to do, written out."""
    if kind == "value":
        return gradient.clamp(-ACTIVE_VALUE, ACTIVE_VALUE)
    return gradient * min(1.0, ACTIVE_NORM / (float(gradient.norm()) + 1e-6))


class Recorder:
    """Collects what happens to the watched model while a script runs."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.model: nn.Module | None = None
        self.steps: list[Step] = []
        self._twin: nn.Module | None = None
        self._open_window()

    def _open_window(self) -> None:
        self.microbatches: list[tuple[int, ...]] = []
        self.clips: list[tuple[str, torch.Tensor]] = []
        self.moves = {"schedule": 0, "unscale": 0, "update": 0}

    def watch(self, model: nn.Module, called: nn.Module | None = None) -> nn.Module:
        """Watch `model`; calls of `called` (default: of the model itself) with gradients on are microbatches."""
        self._twin = copy.deepcopy(model)
        self.model = model
        (called or model).register_forward_pre_hook(self._forward, with_kwargs=True)
        return model

    def _forward(self, module: nn.Module, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if torch.is_grad_enabled():
            rows = self.problem.shown(args, kwargs)
            if rows is not None:
                self.microbatches.append(self.problem.examples.find(rows))

    def on_clip(self, kind: str) -> None:
        if self.model is not None:
            self.clips.append((kind, flat_gradient(self.model)))

    def on_move(self, what: str) -> None:
        self.moves[what] += 1

    def on_step(self, optimizer: torch.optim.Optimizer, *_: object) -> None:
        if self.model is None:
            return
        watched = {id(p) for p in self.model.parameters()}
        if not any(id(p) in watched for group in optimizer.param_groups for p in group["params"]):
            return
        reference = self.reference([i for microbatch in self.microbatches for i in microbatch])
        used = flat_gradient(self.model)
        before = self.clips[-1][1] if self.clips else used
        expected = clipped(reference, self.clips[-1][0]) if self.clips else reference
        self.steps.append(
            Step(
                microbatches=tuple(self.microbatches),
                reference_norm=float(reference.norm()),
                error=relative_error(before, reference),
                clip_error=relative_error(used, expected) if self.clips else 0.0,
                clips=len(self.clips),
                active_clips=sum(not torch.equal(clipped(g, kind), g) for kind, g in self.clips),
                schedule_moves=self.moves["schedule"],
                scaler_moves=max(self.moves["unscale"], self.moves["update"]),
            )
        )
        self._open_window()

    def reference(self, indices: list[int]) -> torch.Tensor:
        """The full-batch gradient over the examples, at the watched model's present parameters."""
        assert self.model is not None
        assert self._twin is not None
        twin = self._twin
        twin.load_state_dict(self.model.state_dict())
        parameters = list(twin.parameters())
        if not indices:
            return torch.cat([torch.zeros_like(p).flatten() for p in parameters])
        keys, columns = self.problem.examples.take(indices)
        with torch.enable_grad():
            if self.problem.gradient is not None:
                return self.problem.gradient(twin, keys, columns)
            total, count = self.problem.loss(twin, keys, columns)
            gradients = torch.autograd.grad(total, parameters, allow_unused=True)
        flat = torch.cat(
            [(torch.zeros_like(p) if g is None else g).flatten() for p, g in zip(parameters, gradients, strict=True)]
        )
        return flat / float(count) if float(count) > 0 else torch.zeros_like(flat)

    def report(self, raised: str | None) -> Report:
        tolerance = self.problem.tolerance
        faults = {
            "gradient": any(not step.error <= tolerance for step in self.steps),
            "clip": any(not step.clip_error <= tolerance for step in self.steps),
            "clips": any(step.clips > 1 for step in self.steps),
            "windows": tuple(len(step.microbatches) for step in self.steps) != self.problem.windows,
            "leftover": bool(self.microbatches),
            "schedule": max([self.moves["schedule"], *(step.schedule_moves for step in self.steps)]) > 1,
            "scaler": max([self.moves["update"], *(step.scaler_moves for step in self.steps)]) > 1,
            "raised": raised is not None,
        }
        named = frozenset(name for name, present in faults.items() if present)
        return Report(tuple(self.steps), len(self.microbatches), named, raised)


class _NoAutocast(contextlib.nullcontext):  # type: ignore[type-arg]
    """`torch.autocast` that changes no dtype: the comparison is in fp64."""

    def __init__(self, *_: object, **__: object) -> None:
        super().__init__()


_float = torch.Tensor.float


def _float_in_double(tensor: torch.Tensor) -> torch.Tensor:
    """`.float()`, written for autocast, must not round the comparison; GradScaler's own scale stays fp32."""
    return tensor.double() if tensor.requires_grad or tensor.numel() > 1 else _float(tensor)


@contextlib.contextmanager
def _importable(modules: Mapping[str, types.ModuleType]) -> Iterator[None]:
    """Make `modules` importable. Only these names are restored: modules that torch imports lazily must stay."""
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                del sys.modules[name]
            else:
                sys.modules[name] = old


@contextlib.contextmanager
def _patched(recorder: Recorder, modules: Mapping[str, types.ModuleType]) -> Iterator[None]:
    """torch with recording clips, schedulers and scalers, everything "cuda" on the CPU, and `modules` importable."""
    clip_norm, clip_value = torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_
    scaler = torch.amp.GradScaler
    scheduler = torch.optim.lr_scheduler.LRScheduler
    unscale, update, scheduler_step = scaler.unscale_, scaler.update, scheduler.step

    def recording_clip_norm(parameters, max_norm, *args, **kwargs):  # type: ignore[no-untyped-def]
        recorder.on_clip("norm")
        return clip_norm(parameters, ACTIVE_NORM, *args, **kwargs)

    def recording_clip_value(parameters, clip_value_, *args, **kwargs):  # type: ignore[no-untyped-def]
        recorder.on_clip("value")
        return clip_value(parameters, ACTIVE_VALUE, *args, **kwargs)

    def recording_unscale(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        recorder.on_move("unscale")
        return unscale(self, *args, **kwargs)

    def recording_update(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        recorder.on_move("update")
        return update(self, *args, **kwargs)

    def recording_schedule(self, *args, **kwargs):  # type: ignore[no-untyped-def]
        if self.last_epoch >= 0:  # the first call comes from the constructor
            recorder.on_move("schedule")
        return scheduler_step(self, *args, **kwargs)

    class CpuScaler(scaler):  # type: ignore[misc, valid-type]
        def __init__(self, device: object = "cpu", **kwargs: object) -> None:
            super().__init__("cpu", **kwargs)

    with contextlib.ExitStack() as stack:
        for owner, name, value in (
            (torch.nn.utils, "clip_grad_norm_", recording_clip_norm),
            (torch.nn.utils, "clip_grad_value_", recording_clip_value),
            (scaler, "unscale_", recording_unscale),
            (scaler, "update", recording_update),
            (scheduler, "step", recording_schedule),
            (torch.amp, "GradScaler", CpuScaler),
            (torch.cuda.amp, "GradScaler", CpuScaler),
            (torch, "autocast", _NoAutocast),
            (torch.amp, "autocast", _NoAutocast),
            (torch.Tensor, "cuda", lambda self, *_, **__: self),
            (torch.nn.Module, "cuda", lambda self, *_, **__: self),
            (torch.Tensor, "float", _float_in_double),
            (torch, "save", lambda *_, **__: None),
        ):
            stack.enter_context(mock.patch.object(owner, name, value))
        stack.enter_context(_importable(modules))
        stack.enter_context(contextlib.redirect_stdout(io.StringIO()))
        stack.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        hook = register_optimizer_step_pre_hook(recorder.on_step)
        stack.callback(hook.remove)
        yield


@contextlib.contextmanager
def double_precision(seed: int = 0) -> Iterator[None]:
    """fp64 by default and a fixed seed, so that a difference is a fault and not rounding."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(seed)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def drive(
    text: str, build: Callable[[], Problem], seed: int = 0, record: Callable[[Problem], Recorder] = Recorder
) -> Report:
    """Execute `text` (a script's source) as the problem says and judge every optimizer step."""
    with double_precision(seed):
        problem = build()
        recorder = record(problem)
        script = types.ModuleType("driven_script")  # dataclasses look their module up
        raised = None
        with _patched(recorder, {**problem.modules, "driven_script": script}):
            exec(compile(text, "driven_script.py", "exec"), script.__dict__)
            if problem.model is not None:
                recorder.watch(problem.model, problem.called)
            try:
                problem.run(script.__dict__, recorder)
            except Exception as error:
                raised = f"{type(error).__name__}: {error}"
    return recorder.report(raised)
