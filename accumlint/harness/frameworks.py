"""Loops that a framework owns, as the `train(model, microbatches, optimizer)` that `accumcheck` runs.

    report = accumcheck(trainer_loop(gradient_accumulation_steps=4), model, microbatches, loss_sum=..., count=...)

Accelerate and Fabric need none of this: there the loop is the user's own, and is given as it stands. Each run gets a
new trainer, with microbatches as they are given (no sampler, no collation), one epoch, on the CPU unless told
otherwise, without logging, checkpoints and progress bars. Whatever is passed on wins over these.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.distributed as dist

from accumlint.harness.errors import HarnessError

Train = Callable[[Any, Any, torch.optim.Optimizer], None]


def trainer_loop(trainer: type[Any] | None = None, **arguments: Any) -> Train:
    """Return the loop of a Hugging Face `Trainer`, or of a subclass of it, with these `TrainingArguments`.

    Microbatches are what the model's forward takes: dicts of tensors, labels among them. The learning rate is that of
    the optimizer and stays. Clipping is that of `max_grad_norm` (1.0 by default, as in `TrainingArguments`). Raises
    HarnessError if transformers is not installed.
    """

    def train(model: Any, microbatches: Sequence[Any], optimizer: torch.optim.Optimizer) -> None:
        transformers = _load("transformers", "trainer_loop")
        base = trainer or transformers.Trainer

        def get_train_dataloader(self: Any) -> Any:
            return _loader(microbatches)

        own = type(base.__name__, (base,), {"get_train_dataloader": get_train_dataloader})
        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 1.0)
        with tempfile.TemporaryDirectory(prefix="accumlint-trainer-") as folder, _quiet("transformers"):
            options = {
                "output_dir": folder, "num_train_epochs": 1, "use_cpu": True, "report_to": "none",
                "save_strategy": "no", "logging_strategy": "no", "disable_tqdm": True, "dataloader_pin_memory": False,
            }  # fmt: skip
            args = transformers.TrainingArguments(**{**options, **arguments})
            own(model=model, args=args, train_dataset=list(microbatches), optimizers=(optimizer, schedule)).train()

    return train


def lightning_loop(**options: Any) -> Train:
    """Return the loop of a Lightning `Trainer` with these options, for a `LightningModule`.

    `training_step` gets each microbatch as it is. `configure_optimizers` is replaced: the optimizer is that of
    `accumcheck`, so pass `optimizer=` there if the module's own matters. `lightning` is tried before
    `pytorch_lightning`. Raises HarnessError if neither is installed.
    """

    def train(model: Any, microbatches: Sequence[Any], optimizer: torch.optim.Optimizer) -> None:
        lightning = _load("lightning.pytorch", "lightning_loop", "pytorch_lightning")
        if not isinstance(model, lightning.LightningModule):
            raise HarnessError(f"lightning_loop needs a LightningModule, not {type(model).__name__}")
        model.configure_optimizers = lambda: optimizer
        quiet = {
            "accelerator": "cpu", "devices": 1, "max_epochs": 1, "logger": False, "enable_checkpointing": False,
            "enable_progress_bar": False, "enable_model_summary": False, "num_sanity_val_steps": 0,
            "limit_val_batches": 0,
        }  # fmt: skip
        with tempfile.TemporaryDirectory(prefix="accumlint-lightning-") as folder, _quiet("lightning"):
            trainer = lightning.Trainer(**{**quiet, "default_root_dir": folder, **options})
            trainer.fit(model, train_dataloaders=_loader(microbatches))

    return train


def deepspeed_loop(config: dict[str, Any], loss: Callable[[Any, Any], torch.Tensor]) -> Train:
    """Return the usual loop of a DeepSpeed engine: `engine.backward(loss(engine, microbatch)); engine.step()` for each.

    `config` is DeepSpeed's, with `gradient_accumulation_steps`; `train_micro_batch_size_per_gpu` is 1 unless given.
    DeepSpeed reduces no fp64, so pass `dtype=torch.float32` to `accumcheck`; its first loop on a machine compiles an
    extension, so pass a generous `timeout` too. Without a process group, one of a single
    gloo rank is made, which stays. Raises HarnessError if deepspeed is not installed.
    """

    def train(model: Any, microbatches: Sequence[Any], optimizer: torch.optim.Optimizer) -> None:
        with _quiet("DeepSpeed"):
            deepspeed = _load("deepspeed", "deepspeed_loop")
            _ensure_group()
            given = {"train_micro_batch_size_per_gpu": 1, **config}
            engine, *_ = deepspeed.initialize(model=model, optimizer=optimizer, config=given)
            for microbatch in microbatches:
                engine.backward(loss(engine, microbatch))
                engine.step()

    return train


def _ensure_group() -> None:
    """Make a process group of this process alone, if there is none. It stays: DeepSpeed keeps a reference to it."""
    if not dist.is_initialized():
        for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1"}.items():
            os.environ.setdefault(name, value)
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)


def _load(name: str, adapter: str, other: str = "") -> Any:
    from importlib import import_module

    for module in filter(None, (name, other)):
        with contextlib.suppress(ModuleNotFoundError):
            return import_module(module)
    package = name.partition(".")[0]
    raise HarnessError(f"{adapter} needs {package}, which is not installed: pip install {package}")


def _loader(microbatches: Sequence[Any]) -> Any:
    """Return a loader that yields the microbatches in order, as they are."""
    return torch.utils.data.DataLoader(list(microbatches), batch_size=None, shuffle=False)


@contextlib.contextmanager
def _quiet(name: str) -> Iterator[None]:
    """Keep what the framework prints and warns of from the user's report; its errors are raised all the same."""
    loggers = [logger for key in list(logging.root.manager.loggerDict) if key.startswith((name, "pytorch_lightning"))
               for logger in [logging.getLogger(key)]]  # fmt: skip
    levels = [(logger, logger.level) for logger in loggers]
    try:
        for logger in loggers:
            logger.setLevel(logging.ERROR)
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in levels:
            logger.setLevel(level)
