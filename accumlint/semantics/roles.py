"""What an unknown object is, by the method that is called on it and, last, by its name."""

from __future__ import annotations

import re
from functools import lru_cache

OPTIMIZER = "torch.optim.Optimizer"
SCHEDULER = "torch.optim.lr_scheduler.LRScheduler"
SCALER = "torch.amp.GradScaler"
ACCELERATOR = "accelerate.Accelerator"
FABRIC = "lightning.fabric.Fabric"
ENGINE = "deepspeed.DeepSpeedEngine"
WRAPPED = "torch.nn.parallel.DistributedDataParallel"

_SCHEDULER_NAME = re.compile(r"sched|\bsch\d*\b|warmup|anneal|lr_?(step|decay|policy)|\blr\b|plateau", re.I)
_OPTIMIZER_NAME = re.compile(r"opt(im)?|solver|adam|sgd", re.I)
_OTHER_STEPPER = re.compile(r"prof|pbar|progress|env\b|envs\b|sim\b|bar\b|ema|tracker|timer|logger", re.I)
_SCALER_NAME = re.compile(r"scaler", re.I)
_ACCELERATOR_NAME = re.compile(r"accelerator|\baccel\b", re.I)
_FABRIC_NAME = re.compile(r"fabric", re.I)
_ENGINE_NAME = re.compile(r"engine|deepspeed|\bds_", re.I)


def guess_class(path: str, method: str, *, has_loss: bool, has_arguments: bool, written: str = "") -> str:
    """The canonical class of an unknown receiver of a method call, or "". Its own name counts more than its origin."""
    last = written or path.rpartition(".")[2]
    framework = _framework(last)
    if framework:
        return framework
    if method == "step":
        return _stepper(last, has_arguments=has_arguments)
    if method == "zero_grad":
        return OPTIMIZER if _OPTIMIZER_NAME.search(last) else ""
    if method in ("unscale_", "scale") and _SCALER_NAME.search(last):
        return SCALER
    if method in ("update", "get_scale", "is_enabled") and _SCALER_NAME.search(last):
        return SCALER
    if method == "backward" and has_loss and _ENGINE_NAME.search(last):
        return ENGINE
    return ""


@lru_cache(maxsize=4096)
def _framework(name: str) -> str:
    """The class of a framework whose object carries that name whatever is called on it, or ""."""
    if _ACCELERATOR_NAME.search(name):
        return ACCELERATOR
    return FABRIC if _FABRIC_NAME.search(name) else ""


def is_named_optimizer(name: str) -> bool:
    """Whether a name says that something is an optimizer; other things have a `step` as well."""
    return bool(_OPTIMIZER_NAME.search(name))


def _stepper(last: str, *, has_arguments: bool) -> str:
    if _SCALER_NAME.search(last):
        return SCALER
    if _OTHER_STEPPER.search(last):
        return ""
    if _SCHEDULER_NAME.search(last):
        return SCHEDULER
    if _ENGINE_NAME.search(last):
        return ENGINE
    if has_arguments and not _OPTIMIZER_NAME.search(last):
        return ""
    return OPTIMIZER
