"""The full batch, computed without accumulating: the yardstick of every check.

Nothing here uses `.backward()` or `.grad` to build a gradient, so a fault in how gradients are accumulated cannot hide
in the reference: one graph over all microbatches, one `torch.autograd.grad`.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from accumlint.harness.errors import UnsuitableModelError

Gradient = dict[str, torch.Tensor]  # parameter name -> gradient; a parameter that no loss reaches is absent
LossSum = Callable[[Any, Any], torch.Tensor]  # (model, microbatch) -> the scalar sum of the losses of its targets
Count = Callable[[Any], Any]  # microbatch -> its valid targets: a number or a tensor of one element
MakeOptimizer = Callable[[Iterable[torch.Tensor]], torch.optim.Optimizer]


def weighted_mean(sums: Any, counts: Any) -> torch.Tensor:
    """Return `sum(sums) / sum(counts)`, the mean over all targets; zero, with zero gradient, if there are none.

    `sums` and `counts` are tensors of one dimension or sequences of numbers or scalar tensors, of equal length: the
    loss sum and the valid targets of each microbatch. Numbers are taken as fp64; sums are added in fp64 and the result
    has the dtype of `sums`. Raises ValueError for unequal lengths and for negative or non-finite counts.
    """
    sum_tensor, count_tensor = _as_vector(sums), _as_vector(counts)
    if sum_tensor.shape != count_tensor.shape:
        raise ValueError(f"{sum_tensor.numel()} sums but {count_tensor.numel()} counts")
    wide = count_tensor.detach().double()
    if bool((wide < 0).any()) or not bool(torch.isfinite(wide).all()):
        raise ValueError(f"counts must be finite and not negative: {wide.tolist()}")
    total = wide.sum().to(sum_tensor.device)
    has_targets = total > 0
    mean = sum_tensor.double().sum() / torch.where(has_targets, total, torch.ones_like(total))
    return torch.where(has_targets, mean, torch.zeros_like(mean)).to(sum_tensor.dtype)


def _as_vector(values: Any) -> torch.Tensor:
    if isinstance(values, torch.Tensor):
        tensor = values.reshape(-1) if values.dim() <= 1 else values
        if tensor.dim() != 1:
            raise ValueError(f"expected one number a microbatch, got shape {tuple(values.shape)}")
    else:
        items = [v if isinstance(v, torch.Tensor) else torch.tensor(float(v), dtype=torch.float64) for v in values]
        tensor = torch.stack([item.reshape(()) for item in items]) if items else torch.zeros(0, dtype=torch.float64)
    return tensor if tensor.is_floating_point() else tensor.double()


def read_count(count: Count, microbatch: Any) -> float:
    """Return `count(microbatch)` as a float, whatever kind of number it is."""
    value = count(microbatch)
    return float(value.detach().double().sum() if isinstance(value, torch.Tensor) else value)


def trainable_parameters(model: torch.nn.Module) -> dict[str, torch.Tensor]:
    """Return the parameters that get a gradient, each once (tied weights have one name)."""
    return {name: p for name, p in model.named_parameters() if p.requires_grad}


def loss_gradient(model: torch.nn.Module, loss: torch.Tensor) -> Gradient:
    """Return d loss / d parameters by `torch.autograd.grad`; `.grad` is neither read nor written."""
    parameters = trainable_parameters(model)
    if not parameters:
        raise UnsuitableModelError("the model has no parameter that requires a gradient")
    if not loss.requires_grad:
        return {}
    gradients = torch.autograd.grad(loss, list(parameters.values()), allow_unused=True)
    return {name: g.detach() for name, g in zip(parameters, gradients, strict=True) if g is not None}


def scalar_loss(loss_sum: LossSum, model: torch.nn.Module, microbatch: Any) -> torch.Tensor:
    """Return `loss_sum(model, microbatch)`, checked to be one number."""
    loss = loss_sum(model, microbatch)
    if not isinstance(loss, torch.Tensor) or loss.numel() != 1:
        shape = tuple(loss.shape) if isinstance(loss, torch.Tensor) else type(loss).__name__
        raise UnsuitableModelError(f"loss_sum must return a scalar tensor, it returned {shape}")
    return loss.reshape(())


def full_batch_loss(
    model: torch.nn.Module, microbatches: Sequence[Any], loss_sum: LossSum, count: Count
) -> torch.Tensor:
    """Return the mean loss over all targets of all microbatches, as one graph."""
    sums = [scalar_loss(loss_sum, model, microbatch) for microbatch in microbatches]
    return weighted_mean(sums, [read_count(count, microbatch) for microbatch in microbatches])


def full_batch_gradient(
    model: torch.nn.Module, microbatches: Sequence[Any], loss_sum: LossSum, count: Count
) -> Gradient:
    """Return the gradient of the mean over all targets of all microbatches; zero if there is no target."""
    return loss_gradient(model, full_batch_loss(model, microbatches, loss_sum, count))


def clip_gradient(
    gradient: Mapping[str, torch.Tensor],
    max_norm: float | None = None,
    *,
    norm_type: float = 2.0,
    clip_value: float | None = None,
) -> Gradient:
    """Return a clipped copy, as `torch.nn.utils` clips: times `max_norm / (norm + 1e-6)`, at most 1."""
    clipped = {name: tensor.clone() for name, tensor in gradient.items()}
    if max_norm is not None and clipped:
        norms = torch.stack([torch.linalg.vector_norm(tensor, norm_type) for tensor in clipped.values()])
        coefficient = torch.clamp(max_norm / (torch.linalg.vector_norm(norms, norm_type) + 1e-6), max=1.0)
        clipped = {name: tensor * coefficient.to(tensor.dtype) for name, tensor in clipped.items()}
    if clip_value is not None:
        clipped = {name: tensor.clamp(-clip_value, clip_value) for name, tensor in clipped.items()}
    return clipped


@dataclass(frozen=True)
class Update:
    """One right optimizer update. `before` and `after` are parameters by name; `change` is their difference."""

    loss: float
    count: float
    gradient: Gradient
    clipped: Gradient
    before: Gradient
    after: Gradient

    @property
    def change(self) -> Gradient:
        return {name: self.after[name] - self.before[name] for name in self.before}


def reference_update(
    model: torch.nn.Module,
    microbatches: Sequence[Any],
    loss_sum: LossSum,
    count: Count,
    *,
    optimizer: MakeOptimizer,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    clip_value: float | None = None,
) -> Update:
    """Make one right update on a deep copy: full-batch gradient, one clip, one step of `optimizer(parameters)`.

    The model that was passed in is not changed. Raises UnsuitableModelError if it cannot be copied.
    """
    try:
        twin = copy.deepcopy(model)
    except Exception as error:
        raise UnsuitableModelError(f"the model cannot be copied: {error}") from error
    loss = full_batch_loss(twin, microbatches, loss_sum, count)
    gradient = loss_gradient(twin, loss)
    clipped = clip_gradient(gradient, max_norm, norm_type=norm_type, clip_value=clip_value)
    parameters = trainable_parameters(twin)
    before = {name: p.detach().clone() for name, p in parameters.items()}
    for name, parameter in parameters.items():
        parameter.grad = clipped[name].clone() if name in clipped else None
    optimizer(list(parameters.values())).step()
    after = {name: p.detach().clone() for name, p in parameters.items()}
    total = sum(read_count(count, microbatch) for microbatch in microbatches)
    return Update(float(loss.detach()), total, gradient, clipped, before, after)
