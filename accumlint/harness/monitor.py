"""`watch`: follows a real, long run at negligible cost, and warns once for each kind of fault, with numbers.

    with accumlint.harness.watch(optimizer, model) as monitor:
        train(...)
    monitor.write_json("accumulation.json")

Nothing is computed on gradients. A backward's weight and count are read off the autograd graph, which keeps them: the
factors between the loss and the call of `backward`, and the number that cross-entropy divided by. Numbers on a GPU stay
there and are fetched together once every `every` windows, so no microbatch waits for the device.
"""

from __future__ import annotations

import functools
import json
import warnings
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import torch

from accumlint.harness.graph import Backward, fetch, read_graph
from accumlint.harness.recorder import CLIP_FUNCTIONS, replaced, replaced_everywhere
from accumlint.harness.report import FaultKind, show_numbers


class AccumulationWarning(UserWarning):
    """A window of a watched run does not make the full-batch update."""


@dataclass
class WatchedWindow:
    """One optimizer step. `factors` multiply each microbatch's loss; `weights` are the shares of the microbatch means.

    A count is None if neither the graph nor `count` tells it, a weight if the loss's reduction is not known either.
    """

    step: int
    microbatches: int
    counts: list[float | None]
    factors: list[float]
    reductions: list[str]
    clips: int
    clips_before_last: int

    @property
    def weights(self) -> list[float | None]:
        rows = zip(self.factors, self.reductions, self.counts, strict=True)
        return [f if r == "mean" else f * n if r == "sum" and n is not None else None for f, r, n in rows]

    @property
    def expected(self) -> list[float | None]:
        known = [n for n in self.counts if n is not None]
        total = sum(known)
        return [n / total if n is not None and total else None for n in self.counts]


class Monitor:
    """What `watch` returns. `windows` keeps the last `keep` ones; `faults` holds the first message of each kind."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        model: torch.nn.Module,
        count: Callable[..., Any] | None,
        *,
        every: int,
        keep: int,
        warn: bool,
    ) -> None:
        self.optimizer, self.model, self.count = unwrap(optimizer), model, count
        self.every, self.keep, self.warn = every, keep, warn
        self.windows: list[WatchedWindow] = []
        self.faults: dict[FaultKind, str] = {}
        self.steps = self.backwards = self.clips = 0
        self._ids = {id(p) for group in self.optimizer.param_groups for p in group["params"]}
        self._probe = next(
            (p for group in self.optimizer.param_groups for p in group["params"] if p.requires_grad), None
        )
        self._pending: list[tuple[int, list[Backward], int, int]] = []
        self._given: list[Any] = []
        self._mark: tuple[int, int] | None = None  # the probe's gradient and its version at the last step
        self._depth = 0
        self._stack = ExitStack()
        self._new_window()

    def _new_window(self) -> None:
        self._current: list[Backward] = []
        self._window_clips = self._early_clips = self._clips_now = 0
        self._had_gradient = False

    def __enter__(self) -> Monitor:
        self._stack.enter_context(replaced(torch.autograd, "backward", self._wrap_backward(torch.autograd.backward)))
        clips = [(function, self._wrap_clip(function)) for function in CLIP_FUNCTIONS]
        self._stack.enter_context(replaced_everywhere(clips, None))
        for handle in (
            self.optimizer.register_step_pre_hook(self._before_step),
            self.optimizer.register_step_post_hook(self._after_step),
        ):
            self._stack.callback(handle.remove)
        if self.count is not None:
            self._stack.callback(self.model.register_forward_pre_hook(self._see_forward, with_kwargs=True).remove)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()
        self.flush()
        if kind is None and self._current:
            self._report(FaultKind.LEFTOVER, f"{len(self._current)} microbatches after the last step are never used")

    def add_count(self, valid_targets: Any) -> None:
        """Say the count of the microbatch whose backward comes next, where the graph cannot tell it."""
        self._given.append(valid_targets)

    def _see_forward(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        assert self.count is not None
        self._given.append(self.count(*args, **kwargs))

    def _wrap_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth == 0:
                self._enter_backward(tensors if isinstance(tensors, torch.Tensor) else tensors[0])
            self._depth += 1
            try:
                return original(tensors, *args, **kwargs)
            finally:
                self._depth -= 1
                self._had_gradient = self._probe is not None and self._probe.grad is not None

        return backward

    def _enter_backward(self, loss: torch.Tensor) -> None:
        grad = None if self._probe is None else self._probe.grad
        if self._current and grad is None and self._had_gradient:
            self._report(FaultKind.LOST, f"cleared after backward {len(self._current)} of a window")
        if not self._current and grad is not None and self._mark == (id(grad), grad._version):
            self._report(FaultKind.STALE, f"not cleared between step {self.steps} and the next backward")
        entry = read_graph(loss)
        if self._given:
            entry.count = self._given.pop(0)
            self._given.clear()
        self._current.append(entry)
        self._early_clips += self._clips_now
        self._clips_now = 0
        self.backwards += 1

    def _wrap_clip(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            if given and id(given[0]) in self._ids:
                self._clips_now += 1
                self._window_clips += 1
                self.clips += 1
            return original(given, *args, **kwargs)

        return clip

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        closure = next((a for a in (*args[1:], *kwargs.values()) if callable(a)), None)
        if closure is None:
            self._end_window()
            return None
        evaluated = False

        def own() -> Any:
            """The closure makes the gradient: its window ends when it returns. Later evaluations make no window."""
            nonlocal evaluated
            value = closure()
            if evaluated:
                self._new_window()
            else:
                self._end_window()
            evaluated = True
            return value

        changed = [own if a is closure else a for a in args]
        return tuple(changed), {key: own if value is closure else value for key, value in kwargs.items()}

    def _end_window(self) -> None:
        self.steps += 1
        self._pending.append((self.steps, self._current, self._window_clips, self._early_clips))
        self._new_window()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        grad = None if self._probe is None else self._probe.grad
        self._mark = None if grad is None else (id(grad), grad._version)
        if len(self._pending) >= self.every:
            self.flush()

    def flush(self) -> None:
        """Fetch the numbers of the pending windows, one transfer a device, and judge them."""
        pending, self._pending = self._pending, []
        numbers = fetch([v for _, entries, _, _ in pending for e in entries for v in (*e.factors, e.count)])
        for step, entries, clips, early in pending:
            factors = []
            counts: list[float | None] = []
            for entry in entries:
                factor = 1.0
                for _ in entry.factors:
                    factor *= numbers.pop(0) or 0.0
                factors.append(factor)
                counts.append(numbers.pop(0))
            window = WatchedWindow(step, len(entries), counts, factors, [e.reduction for e in entries], clips, early)
            self._judge(window)
            self.windows.append(window)
        del self.windows[: -self.keep]

    def _judge(self, window: WatchedWindow) -> None:
        if window.clips_before_last:
            text = f"{window.clips} clips at step {window.step}, {window.clips_before_last} before the last backward"
            self._report(FaultKind.CLIP_EACH, text)
        elif window.clips > 1:
            self._report(FaultKind.CLIP_TWICE, f"{window.clips} clips at step {window.step}")
        weights, expected = window.weights, window.expected
        rows = [
            (w, e, n)
            for w, e, n in zip(weights, expected, window.counts, strict=True)
            if w is not None and e is not None and n
        ]
        if len(rows) < 2 or len(rows) + window.counts.count(0.0) < window.microbatches:
            return
        ratios = [w / e for w, e, _ in rows]
        if max(ratios) - min(ratios) <= 1e-3 * max(abs(r) for r in ratios):
            return  # the same objective up to a factor, which deferred normalisation applies to the gradient
        means = [w for w, _, _ in rows]
        text = f"weights {show_numbers(weights)} where {show_numbers(expected)} belong (step {window.step})"
        equal = max(means) - min(means) <= 1e-6 * max(abs(m) for m in means)
        self._report(FaultKind.EQUAL_WEIGHT if equal else FaultKind.WEIGHTS, text)

    def _report(self, kind: FaultKind, text: str) -> None:
        if kind not in self.faults:
            self.faults[kind] = text
            if self.warn:
                warnings.warn(f"accumlint: {kind.value}: {text}", AccumulationWarning, stacklevel=2)

    def to_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "backwards": self.backwards,
            "clips": self.clips,
            "faults": {kind.name.lower().replace("_", "-"): text for kind, text in self.faults.items()},
            "windows": [{**asdict(w), "weights": w.weights, "expected": w.expected} for w in self.windows],
        }

    def write_json(self, path: str | Path) -> None:
        Path(path).write_text(json.dumps(self.to_dict(), indent=2) + "\n", encoding="utf-8")

    def write_tensorboard(self, writer: Any) -> None:
        """Write the kept windows as scalars: `writer` is a SummaryWriter, or a folder for a new one."""
        if isinstance(writer, (str, Path)):
            try:
                from torch.utils.tensorboard import SummaryWriter
            except ImportError as error:
                raise ImportError("TensorBoard is not installed: pip install tensorboard") from error
            with SummaryWriter(str(writer)) as own:
                self.write_tensorboard(own)
            return
        for w in self.windows:
            scalars: dict[str, float] = {"microbatches": w.microbatches, "clips": w.clips}
            scalars["targets"] = sum(n or 0 for n in w.counts)
            pairs = zip(w.weights, w.expected, strict=True)
            ratios = [given / belongs for given, belongs in pairs if given is not None and belongs]
            if ratios:  # 1 and 1 where every target has the weight of the full batch
                scalars |= {"weight/least": min(ratios), "weight/most": max(ratios)}
            for name, value in scalars.items():
                writer.add_scalar(f"accumlint/{name}", value, w.step)


def unwrap(optimizer: Any) -> torch.optim.Optimizer:
    """Return torch's own optimizer behind those of Accelerate, Fabric and Lightning, which have no hooks."""
    inner = optimizer
    for _ in range(4):
        if "_optimizer_step_pre_hooks" in getattr(inner, "__dict__", {}):
            break
        inner = getattr(inner, "optimizer", None) or getattr(inner, "_optimizer", None)
        if inner is None:
            raise TypeError(f"watch needs an optimizer of torch.optim, not {type(optimizer).__name__}")
    own: torch.optim.Optimizer = inner
    return own


def watch(
    optimizer: torch.optim.Optimizer,
    model: torch.nn.Module,
    *,
    count: Callable[..., Any] | None = None,
    every: int = 20,
    keep: int = 1000,
    warn: bool = True,
) -> Monitor:
    """Return a context manager that watches `optimizer` until it is left.

    `count` gets the arguments of the model's forward and returns the microbatch's valid targets (a number or a tensor);
    without it the count is read off a cross-entropy in the graph, or given by `monitor.add_count`.
    """
    return Monitor(optimizer, model, count, every=every, keep=keep, warn=warn)
