"""Watches a training loop from inside torch: backward calls, clips and optimizer steps, with the gradients they saw.

While the loop runs, `torch.autograd.backward` and the functions of `torch.nn.utils.clip_grad` are replaced, and torch's
global optimizer hooks are set; all is put back afterwards, whatever happens.
"""

from __future__ import annotations

import copy
import functools
import sys
import types
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any, NoReturn

import torch
import torch.optim.optimizer as torch_optimizer

from accumlint.harness.errors import HarnessError, RunawayLoopError
from accumlint.harness.precision import PrecisionWatch
from accumlint.harness.reference import Gradient, trainable_parameters

CLIP_FUNCTIONS = (torch.nn.utils.clip_grad_norm_, torch.nn.utils.clip_grad_value_)


@dataclass
class Clip:
    """One clip. `after` is how many backward calls of the window had run; `limit` is its threshold."""

    function: str
    after: int
    limit: float
    norm_type: float
    before: Gradient
    result: Gradient


@dataclass
class Step:
    """One optimizer step and what led to it. `gradient` is what the optimizer used."""

    backwards: int
    total_backwards: int
    gradient: Gradient
    before: Gradient
    clips: list[Clip]
    lost: list[int]  # after how many backward calls of the window its gradient was cleared
    stale: bool  # the window's first backward found gradient
    apply: Callable[[Gradient], Gradient] | None  # what the optimizer, in the same state, does with another gradient
    after: Gradient = field(default_factory=dict)


class Recorder:
    """Records one run of a loop on `model`. `scale` multiplies every gradient as it is made (1 = as it is)."""

    def __init__(self, model: torch.nn.Module, *, scale: float = 1.0, max_backwards: int) -> None:
        self.parameters = trainable_parameters(model)
        self.names = {id(p): name for name, p in self.parameters.items()}
        self.initial = self.values()
        self.final: Gradient = {}
        self.frozen: set[str] = set()  # by the loop, while it ran
        self.scale, self.max_backwards = scale, max_backwards
        self.copies = True  # of the optimizer at each step, to repeat it
        self.steps: list[Step] = []
        self.total_backwards = 0
        self.integer_division = False
        self.narrowest: torch.dtype | None = None
        self.optimizer: torch.optim.Optimizer | None = None
        self._depth = 0
        self._held: set[str] = set()
        self._refused: HarnessError | None = None
        self._new_window()

    def _new_window(self) -> None:
        self.backwards = 0
        self._clips: list[Clip] = []
        self._lost: list[int] = []
        self._stale = False
        self._had_gradient = False

    @contextmanager
    def recording(self, loop: Any = None) -> Iterator[None]:
        """Record what happens inside; `loop` is the function that will be called."""
        with ExitStack() as stack:
            stack.enter_context(replaced(torch.autograd, "backward", self._wrap_backward(torch.autograd.backward)))
            clips = [(f, self._wrap_clip(f.__name__, f)) for f in CLIP_FUNCTIONS]
            stack.enter_context(replaced_everywhere(clips, loop))
            for handle in (
                torch_optimizer.register_optimizer_step_pre_hook(self._before_step),
                torch_optimizer.register_optimizer_step_post_hook(self._after_step),
            ):
                stack.callback(handle.remove)
            watch = stack.enter_context(PrecisionWatch())
            try:
                yield
            finally:
                self.integer_division, self.narrowest = watch.integer_division, watch.narrowest

    def _refuse(self, error: HarnessError) -> NoReturn:
        """Raise an error, and keep it: the loop may catch it (`except Exception: continue`) and go on."""
        self._refused = self._refused or error
        raise error

    def raise_refused(self) -> None:
        if self._refused is not None:
            raise self._refused

    def gradient(self) -> Gradient:
        return {n: whole(p.grad).clone() for n, p in self.parameters.items() if p.grad is not None}

    def values(self) -> Gradient:
        return {name: whole(p).clone() for name, p in self.parameters.items()}

    def has_gradient(self) -> bool:
        return any(p.grad is not None and bool((_local(p.grad) != 0).any()) for p in self.parameters.values())

    def _wrap_backward(self, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def backward(tensors: Any, grad_tensors: Any = None, *args: Any, **kwargs: Any) -> Any:
            if self._depth:  # checkpointing calls it again from inside
                return original(tensors, grad_tensors, *args, **kwargs)
            self._enter_backward()
            if self.scale != 1.0:
                grad_tensors = _scaled(tensors, grad_tensors, self.scale)
            self._depth += 1
            try:
                return original(tensors, grad_tensors, *args, **kwargs)
            finally:
                self._depth -= 1
                self._had_gradient = self.has_gradient()

        return backward

    def _enter_backward(self) -> None:
        present = self.has_gradient()
        if self.backwards == 0:
            self._stale = present and bool(self.steps)
        elif self._had_gradient and not present:
            self._lost.append(self.backwards)
        self.backwards += 1
        self.total_backwards += 1
        if self.total_backwards > self.max_backwards:
            self._refuse(RunawayLoopError(f"the loop made more than {self.max_backwards} backward calls"))

    def _wrap_clip(self, name: str, original: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(original)
        def clip(parameters: Any, *args: Any, **kwargs: Any) -> Any:
            given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
            if not any(id(p) in self.names for p in given):
                return original(given, *args, **kwargs)
            before = self.gradient()
            value = original(given, *args, **kwargs)
            limit: Any = args[0] if args else kwargs.get("max_norm", kwargs.get("clip_value"))
            norm_type = args[1] if len(args) > 1 else kwargs.get("norm_type", 2.0)
            kind = "clip_grad_value_" if name == "clip_grad_value_" else "clip_grad_norm_"
            self._clips.append(Clip(kind, self.backwards, float(limit), float(norm_type), before, self.gradient()))
            return value

        return clip

    def _before_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> Any:
        held = [id(p) for group in optimizer.param_groups for p in group["params"]]
        if not any(i in self.names for i in held):
            return None
        if self.optimizer is not None and self.optimizer is not optimizer:
            self._refuse(HarnessError("more than one optimizer steps this model; check one of them at a time"))
        self.optimizer = optimizer
        names = [self.names[i] for i in held if i in self.names]
        closures = [a for a in (*args[1:], *kwargs.values()) if callable(a)]
        if not closures:
            self._record_step(optimizer, names)
            return None
        own = self._wrap_closure(closures[0], optimizer, names)
        changed = [own if a is closures[0] else a for a in args]
        return tuple(changed), {key: own if value is closures[0] else value for key, value in kwargs.items()}

    def _wrap_closure(
        self, closure: Callable[[], Any], optimizer: torch.optim.Optimizer, names: list[str]
    ) -> Callable[[], Any]:
        """Return the closure of a step, which makes the gradient: the step is recorded when it has returned."""
        calls = 0

        def own() -> Any:
            nonlocal calls
            calls += 1
            if calls > 1:
                text = "evaluates its closure more than once a step: it has no single gradient to compare"
                self._refuse(HarnessError(f"{type(optimizer).__name__} {text}"))
            value = closure()
            self._record_step(optimizer, names)
            return value

        return own

    def _record_step(self, optimizer: torch.optim.Optimizer, names: list[str]) -> None:
        self.steps.append(
            Step(
                backwards=self.backwards,
                total_backwards=self.total_backwards,
                gradient=self.gradient(),
                before=self.values(),
                clips=self._clips,
                lost=self._lost,
                stale=self._stale,
                apply=_frozen_step(optimizer, {n: self.parameters[n] for n in names}) if self.copies else None,
            )
        )
        self._new_window()

    def _after_step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        if self.steps and optimizer is self.optimizer:
            self.steps[-1].after = self.values()

    def held_names(self) -> set[str]:
        """Return the names of the parameters that the optimizer holds."""
        groups = self.optimizer.param_groups if self.optimizer is not None else []
        names = {self.names[id(p)] for group in groups for p in group["params"] if id(p) in self.names}
        return names or self._held

    def finish(self) -> None:
        """Record the state in which the loop left the model."""
        self.final = self.values()
        self.frozen = {name for name, p in self.parameters.items() if not p.requires_grad}

    def detach(self) -> None:
        """Let go of model and optimizer, so that the record can be sent to another process."""
        self._held = self.held_names()
        self.parameters, self.names, self.optimizer = {}, {}, None


def whole(tensor: torch.Tensor) -> torch.Tensor:
    """Return a parameter or gradient detached, and gathered from all ranks if it is sharded (FSDP2)."""
    value = tensor.detach()
    return value.full_tensor() if hasattr(value, "full_tensor") else value


def _local(tensor: torch.Tensor) -> torch.Tensor:
    value = tensor.detach()
    return value.to_local() if hasattr(value, "to_local") else value


def _frozen_step(
    optimizer: torch.optim.Optimizer, parameters: dict[str, torch.Tensor]
) -> Callable[[Gradient], Gradient]:
    """Copy the optimizer as it is now; the result makes its step with another gradient and returns the parameters."""
    frozen, twins = copy.deepcopy((optimizer, parameters))

    def apply(gradient: Gradient) -> Gradient:
        stepper, own = copy.deepcopy((frozen, twins))
        for name, parameter in own.items():
            parameter.grad = gradient[name].to(parameter.dtype).clone() if name in gradient else None
        stepper.step()
        return {name: parameter.detach() for name, parameter in own.items()}

    return apply


def _scaled(tensors: Any, grad_tensors: Any, scale: float) -> Any:
    many = [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)
    if grad_tensors is None:
        given: list[Any] = [None] * len(many)
    else:
        given = [grad_tensors] if isinstance(grad_tensors, torch.Tensor) else list(grad_tensors)
    return [torch.full_like(t, scale) if g is None else g * scale for t, g in zip(many, given, strict=True)]


@contextmanager
def replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    original = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, original)


@contextmanager
def replaced_everywhere(changes: Sequence[tuple[Any, Any]], loop: Any) -> Iterator[None]:
    """Replace functions under every global name of every module, and in the closure of `loop`.

    That reaches `from torch.nn.utils import clip_grad_norm_`, wherever the import stands.
    """
    new = {id(original): value for original, value in changes}
    spaces = []
    for module in list(sys.modules.values()):
        space = getattr(module, "__dict__", None)
        if isinstance(space, dict):
            spaces += [(space, name, held) for name, held in list(space.items()) if id(held) in new]
    cells = [(cell, cell.cell_contents) for cell in _cells(loop) if id(cell.cell_contents) in new]
    try:
        for space, name, held in spaces:
            space[name] = new[id(held)]
        for cell, held in cells:
            cell.cell_contents = new[id(held)]
        yield
    finally:
        for space, name, held in spaces:
            space[name] = held
        for cell, held in cells:
            cell.cell_contents = held


def _cells(function: Any, depth: int = 4) -> Iterator[types.CellType]:
    """Yield the filled cells of a function and of the functions that it closes over."""
    for cell in getattr(getattr(function, "__func__", function), "__closure__", None) or ():
        try:
            held = cell.cell_contents
        except ValueError:  # not filled yet
            continue
        yield cell
        if depth and isinstance(held, (types.FunctionType, types.MethodType)):
            yield from _cells(held, depth - 1)
