"""The user's model, copied, cast and made deterministic, with a line for everything that had to be done to it."""

from __future__ import annotations

import copy
import dataclasses
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from accumlint.harness.errors import HarnessError, UnsuitableModelError
from accumlint.harness.reference import Count, LossSum, loss_gradient, read_count, scalar_loss
from accumlint.harness.tolerances import relative_error

MakeOptimizer = Callable[..., torch.optim.Optimizer]


@dataclass
class Twin:
    """A copy that may be trained. `optimizer` acts on the copy's parameters."""

    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    limits: list[str] = field(default_factory=list)


def make_twin(
    model: torch.nn.Module, optimizer: MakeOptimizer | torch.optim.Optimizer | None, dtype: torch.dtype | None
) -> Twin:
    """Copy `model` (and an optimizer that was made for it), cast it, freeze what no accumulation can reproduce.

    `optimizer` is a function of the parameters, an optimizer of this model, or None for SGD with lr 0.1.
    Raises UnsuitableModelError.
    """
    existing = optimizer if isinstance(optimizer, torch.optim.Optimizer) else None
    try:
        twin, twin_optimizer = copy.deepcopy((model, existing))
        if dtype is not None:
            twin = twin.to(dtype)
    except Exception as error:
        raise UnsuitableModelError(
            f"the model cannot be copied{f' and cast to {dtype}' if dtype else ''}: {type(error).__name__}: {error}"
        ) from error
    if not any(p.requires_grad for p in twin.parameters()):
        raise UnsuitableModelError("the model has no parameter that requires a gradient")
    twin.zero_grad(set_to_none=True)
    limits = freeze(twin)
    if twin_optimizer is None:
        twin_optimizer = make_optimizer(optimizer, twin)
    elif dtype is not None:
        twin_optimizer.load_state_dict(twin_optimizer.state_dict())  # casts its state to the parameters' dtype
    return Twin(twin, twin_optimizer, limits)


def make_optimizer(make: MakeOptimizer | None, model: torch.nn.Module) -> torch.optim.Optimizer:
    """Return `make(parameters)` for the trainable parameters; SGD with lr 0.1 if it is None."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    try:
        optimizer = torch.optim.SGD(parameters, lr=0.1) if make is None else make(parameters)
    except Exception as error:
        raise HarnessError(f"optimizer(parameters) raised {type(error).__name__}: {error}") from error
    if not isinstance(optimizer, torch.optim.Optimizer):
        raise HarnessError(f"optimizer(parameters) must return an optimizer, not {type(optimizer).__name__}")
    return optimizer


def freeze(model: torch.nn.Module) -> list[str]:
    """Turn dropout off and hold BatchNorm to its running statistics; return a line for each kind that was met.

    `model.train()` inside the loop does not undo it.
    """
    norms, dropouts = [], []
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.modules.batchnorm._BatchNorm):
            module.eval()
            module.train = lambda mode=True, module=module: module
            norms.append(name)
        elif isinstance(module, torch.nn.modules.dropout._DropoutNd) and module.p > 0:
            module.p = 0.0
            dropouts.append(name)
        elif isinstance(module, (torch.nn.MultiheadAttention, torch.nn.RNNBase)) and module.dropout > 0:
            module.dropout = 0.0
            dropouts.append(name)
    limits = []
    if norms:
        limits.append(
            f"BatchNorm in train mode ({_some(norms)}) couples the samples of a microbatch: no weights reproduce the "
            "full batch; checked with frozen statistics"
        )
    if dropouts:
        limits.append(
            f"dropout ({_some(dropouts)}) draws other masks for microbatches than for the full batch; checked with p=0"
        )
    return limits


def _some(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def cast_data(value: Any, dtype: torch.dtype | None) -> Any:
    """Return `value` with its floating-point tensors cast; see `map_tensors`."""
    if dtype is None:
        return value
    return map_tensors(value, lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Return `value` with its tensors changed, through tuples, lists, dicts and dataclasses."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, tuple):
        items = [map_tensors(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, list):
        return [map_tensors(item, change) for item in value]
    if isinstance(value, dict):
        changed = {key: map_tensors(item, change) for key, item in value.items()}
        if type(value) is dict:
            return changed
        twin = copy.copy(value)  # a BatchEncoding, a defaultdict
        twin.update(changed)
        return twin
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        changes = {f.name: map_tensors(getattr(value, f.name), change) for f in dataclasses.fields(value) if f.init}
        return dataclasses.replace(value, **changes)
    return value


def make_deterministic(twin: Twin, microbatches: Sequence[Any], loss_sum: LossSum, count: Count) -> None:
    """Make sure that the same microbatch gives the same gradient twice; falls back to eval mode, else raises."""
    probe = next((m for m in microbatches if read_count(count, m) > 0), None)
    if probe is None or _repeats(twin.model, probe, loss_sum):
        return
    for module in twin.model.modules():
        module.eval()
        module.train = lambda mode=True, module=module: module
    if not _repeats(twin.model, probe, loss_sum):
        raise UnsuitableModelError(
            "the same microbatch gives different gradients from one evaluation to the next, even in eval mode: "
            "the loss draws random numbers or keeps state in its forward, so there is no full batch to compare with"
        )
    twin.limits.append(
        "the model is random or keeps state in train mode (two evaluations of one microbatch differ); checked in eval "
        "mode"
    )


def _repeats(model: torch.nn.Module, microbatch: Any, loss_sum: LossSum) -> bool:
    gradients = []
    for seed in (11, 12):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            gradients.append(loss_gradient(model, scalar_loss(loss_sum, model, microbatch)))
    return relative_error(gradients[0], gradients[1]) <= 1e-9 if gradients[1] else True


def merge_along_first(microbatches: Sequence[Any]) -> Any:
    """Concatenate microbatches of equal structure along dimension 0. Raises ValueError if that has no meaning."""
    first = microbatches[0]
    if isinstance(first, torch.Tensor):
        if first.dim() == 0 or len({m.shape[1:] for m in microbatches}) > 1:
            raise ValueError("tensors that cannot be concatenated along dimension 0")
        return torch.cat(list(microbatches))
    if isinstance(first, (tuple, list)):
        if len({len(m) for m in microbatches}) > 1:
            raise ValueError("sequences of different lengths")
        items = [merge_along_first([m[i] for m in microbatches]) for i in range(len(first))]
        return type(first)(*items) if hasattr(first, "_fields") else type(first)(items)
    if isinstance(first, dict):
        return {key: merge_along_first([m[key] for m in microbatches]) for key in first}
    if isinstance(first, (str, bool, type(None))) and len(set(microbatches)) == 1:
        return first
    raise ValueError(f"a {type(first).__name__} that differs between microbatches")


def find_coupling(
    twin: Twin,
    microbatches: Sequence[Any],
    loss_sum: LossSum,
    count: Count,
    merge: Callable[[Sequence[Any]], Any] | None,
) -> tuple[float | None, str]:
    """Return how far the gradient of the merged batch is from the sum of the microbatches', or None and why not.

    Without `merge`, microbatches are concatenated along dimension 0, which counts only if the counts then add up.
    """
    given = [m for m in microbatches if read_count(count, m) > 0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            whole = (merge or merge_along_first)(given)
            if abs(read_count(count, whole) - sum(read_count(count, m) for m in given)) > 1e-6:
                return None, "the merged batch has another count"
            joined = loss_gradient(twin.model, scalar_loss(loss_sum, twin.model, whole))
    except Exception as error:
        if merge is not None:
            raise HarnessError(f"merge(microbatches) or the loss of its result failed: {error}") from error
        return None, str(error)
    total = scalar_loss(loss_sum, twin.model, given[0])
    for microbatch in given[1:]:
        total = total + scalar_loss(loss_sum, twin.model, microbatch)
    return relative_error(joined, loss_gradient(twin.model, total)), ""
