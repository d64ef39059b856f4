"""Stand-ins for one process of Accelerate, Fabric and DeepSpeed: who divides, clips, steps and clears, and when.

Only what reaches a gradient is modelled, after the releases' source (accelerate 1.15.0 accelerator.py, optimizer.py,
scheduler.py; lightning 2.6.6 fabric.py; deepspeed 0.19.8 runtime/engine.py):

- `Accelerator.backward` divides by the configured number of steps, also in a short last window; `clip_grad_norm_` does
  not ask whether gradients are synchronised; prepared optimizers and schedulers do nothing unless they are.
- `Fabric.backward` divides nothing, its optimizers are plain.
- A DeepSpeed engine divides in `backward`; its `step` acts, and clears, at the boundary only.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import ModuleType

import torch


def module(name: str, **attributes: object) -> ModuleType:
    made = ModuleType(name)
    vars(made).update(attributes)
    return made


class GradientAccumulationPlugin:
    def __init__(self, num_steps: int, sync_with_dataloader: bool = True) -> None:
        self.num_steps, self.sync_with_dataloader = num_steps, sync_with_dataloader


class Accelerator:
    num_processes = 1
    distributed_type = "NO"
    is_main_process = is_local_main_process = True
    device = torch.device("cpu")

    def __init__(self, gradient_accumulation_steps=1, gradient_accumulation_plugin=None, **_):
        self._plugin = gradient_accumulation_plugin or GradientAccumulationPlugin(gradient_accumulation_steps)
        self._step, self._end_of_loader = 0, False
        self.sync_gradients = True

    @property
    def gradient_accumulation_steps(self) -> int:
        return self._plugin.num_steps

    def prepare(self, *objects):
        prepared = tuple(self._prepare(thing) for thing in objects)
        return prepared if len(prepared) > 1 else prepared[0]

    def _prepare(self, thing):
        if isinstance(thing, torch.optim.Optimizer):
            return _PreparedOptimizer(self, thing)
        if isinstance(thing, torch.optim.lr_scheduler.LRScheduler):
            return _PreparedScheduler(self, thing)
        if isinstance(thing, torch.utils.data.DataLoader):
            return _PreparedLoader(self, thing)
        return thing

    @contextlib.contextmanager
    def accumulate(self, *_):
        if self._plugin.sync_with_dataloader and self._end_of_loader:
            self._step, self.sync_gradients = 0, True
        else:
            self._step += 1
            self.sync_gradients = self._step % self._plugin.num_steps == 0
        yield

    def no_sync(self, _):
        return contextlib.nullcontext()

    def backward(self, loss, **kwargs):
        (loss / self._plugin.num_steps).backward(**kwargs)

    def clip_grad_norm_(self, parameters, max_norm, norm_type=2):
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def clip_grad_value_(self, parameters, clip_value):
        torch.nn.utils.clip_grad_value_(parameters, clip_value)

    def autocast(self):
        return contextlib.nullcontext()

    def gather(self, tensor):
        return tensor.reshape(-1)

    def reduce(self, tensor, reduction="sum", scale=1.0):
        return tensor.clone()

    def unwrap_model(self, model):
        return model

    def print(self, *_):
        pass

    def log(self, *_, **__):
        pass


class _PreparedOptimizer:
    def __init__(self, accelerator, optimizer):
        self._accelerator, self.optimizer = accelerator, optimizer

    def __getattr__(self, name):
        return getattr(self.optimizer, name)

    def step(self, closure=None):
        if self._accelerator.sync_gradients:
            self.optimizer.step(closure)

    def zero_grad(self, set_to_none=True):
        if self._accelerator.sync_gradients:
            self.optimizer.zero_grad(set_to_none)


class _PreparedScheduler:
    def __init__(self, accelerator, scheduler):
        self._accelerator, self.scheduler = accelerator, scheduler

    def __getattr__(self, name):
        return getattr(self.scheduler, name)

    def step(self):
        if self._accelerator.sync_gradients:
            self.scheduler.step()


class _PreparedLoader:
    def __init__(self, accelerator, loader):
        self._accelerator, self.loader = accelerator, loader

    def __len__(self):
        return len(self.loader)

    def __iter__(self) -> Iterator[object]:
        for position, batch in enumerate(self.loader, 1):
            self._accelerator._end_of_loader = position == len(self.loader)
            yield batch
        self._accelerator._end_of_loader = False


class Fabric:
    device = torch.device("cpu")
    world_size = 1

    def backward(self, loss, *args, **kwargs):
        loss.backward(*args, **kwargs)

    def no_backward_sync(self, module, enabled=True):
        return contextlib.nullcontext()

    def all_reduce(self, data, group=None, reduce_op="mean"):
        return data

    def clip_gradients(self, module, optimizer, clip_val=None, max_norm=None, norm_type=2.0):
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        if clip_val is not None:
            return torch.nn.utils.clip_grad_value_(parameters, clip_val)
        return torch.nn.utils.clip_grad_norm_(parameters, max_norm, norm_type)

    def print(self, *_):
        pass

    def log(self, *_, **__):
        pass


class DeepSpeedEngine:
    device = torch.device("cpu")
    dp_world_size = 1

    def __init__(self, model, config):
        self.module, self._config = model, config
        self._optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
        self._micro_steps = 0

    def __call__(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def gradient_accumulation_steps(self):
        return self._config["gradient_accumulation_steps"]

    def train_micro_batch_size_per_gpu(self):
        return self._config["train_micro_batch_size_per_gpu"]

    def is_gradient_accumulation_boundary(self):
        return (self._micro_steps + 1) % self.gradient_accumulation_steps() == 0

    def backward(self, loss, scale_wrt_gas=True):
        (loss / self.gradient_accumulation_steps() if scale_wrt_gas else loss).backward()

    def step(self):
        if self.is_gradient_accumulation_boundary():
            self._optimizer.step()
            self._optimizer.zero_grad()
        self._micro_steps += 1


def accelerate() -> dict[str, ModuleType]:
    utils = module("accelerate.utils", GradientAccumulationPlugin=GradientAccumulationPlugin)
    return {"accelerate": module("accelerate", Accelerator=Accelerator, utils=utils), "accelerate.utils": utils}


def fabric() -> dict[str, ModuleType]:
    part = module("lightning.fabric", Fabric=Fabric)
    return {"lightning": module("lightning", fabric=part), "lightning.fabric": part}


def deepspeed(config: dict[str, int]) -> dict[str, ModuleType]:
    """`config` holds the keys of a DeepSpeed configuration, whatever file the script names."""

    def initialize(model, training_data=None, collate_fn=None, **_):
        if not torch.distributed.is_initialized():  # as `deepspeed.initialize` does
            torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
        loader = None
        if training_data is not None:
            size = config["train_micro_batch_size_per_gpu"]
            loader = torch.utils.data.DataLoader(training_data, batch_size=size, collate_fn=collate_fn)
        engine = DeepSpeedEngine(model, config)
        return engine, engine._optimizer, loader, None

    return {"deepspeed": module("deepspeed", initialize=initialize, add_config_arguments=lambda parser: parser)}


def warmup_schedule(optimizer: torch.optim.Optimizer) -> torch.optim.lr_scheduler.LRScheduler:
    """Any schedule that moves the rate: it stands for transformers' and diffusers' ones."""
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0 / (1 + step))


def transformers(**attributes: object) -> dict[str, ModuleType]:
    def schedule(optimizer, *_, **__):
        return warmup_schedule(optimizer)

    return {"transformers": module("transformers", get_cosine_schedule_with_warmup=schedule, **attributes)}


def diffusers() -> dict[str, ModuleType]:
    def get_scheduler(_, optimizer, **__):
        return warmup_schedule(optimizer)

    optimization = module("diffusers.optimization", get_scheduler=get_scheduler)
    return {"diffusers": module("diffusers", optimization=optimization), "diffusers.optimization": optimization}
