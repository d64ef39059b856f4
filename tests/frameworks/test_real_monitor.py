"""The monitor with what frameworks hand out: Accelerate's optimizer, Lightning's closures, TensorBoard's files."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch
from problem import K, mean

from accumlint.harness import FaultKind, watch
from accumlint.harness.monitor import AccumulationWarning
from accumlint.harness.toys import classification_toy

pytestmark = pytest.mark.frameworks


def test_accelerate() -> None:
    accelerate = pytest.importorskip("accelerate", reason="the extra `frameworks` is not installed")
    toy = classification_toy((2, 5, 3, 1, 4, 6))
    accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=K)
    loader = torch.utils.data.DataLoader(toy.microbatches, batch_size=None)
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    model, optimizer, loader = accelerator.prepare(toy.model, optimizer, loader)
    monitor = watch(optimizer, model)

    def train() -> None:
        with monitor:
            for microbatch in loader:
                with accelerator.accumulate(model):
                    accelerator.backward(toy.loss_mean(model, microbatch))
                    optimizer.step()
                    optimizer.zero_grad()

    with pytest.warns(AccumulationWarning, match="1/3, 1/3, 1/3 where 1/5, 1/2, 3/10 belong"):
        train()
    assert (monitor.steps, monitor.backwards) == (2, 6)
    assert set(monitor.faults) == {FaultKind.EQUAL_WEIGHT}


def test_lightning() -> None:
    pytest.importorskip("lightning", reason="the extra `frameworks` is not installed")
    import lightning.pytorch as lightning

    from accumlint.harness import lightning_loop

    toy = classification_toy((2, 5, 3, 1, 4, 6))

    class Module(lightning.LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.net = toy.model

        def training_step(self, batch, batch_idx):
            return toy.loss_mean(self.net, batch)

    module = Module()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
    with watch(optimizer, module, warn=False) as monitor:
        lightning_loop(accumulate_grad_batches=K)(module, toy.microbatches, optimizer)
    assert [window.counts for window in monitor.windows] == [[2, 5, 3], [1, 4, 6]]
    assert set(monitor.faults) == {FaultKind.EQUAL_WEIGHT}


def test_tensorboard(tmp_path) -> None:
    pytest.importorskip("tensorboard", reason="the extra `frameworks` is not installed")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    toy = classification_toy()
    optimizer = torch.optim.SGD(toy.model.parameters(), lr=0.1)
    with watch(optimizer, toy.model, warn=False) as monitor:
        for start in range(0, len(toy.microbatches), K):
            for microbatch in toy.microbatches[start : start + K]:
                (mean(toy.model, microbatch) / K).backward()
            optimizer.step()
            optimizer.zero_grad()
    monitor.write_tensorboard(tmp_path)
    events = EventAccumulator(str(tmp_path)).Reload()
    assert [(e.step, e.value) for e in events.Scalars("accumlint/targets")] == [(1, 7.0), (2, 8.0), (3, 6.0)]
    assert events.Scalars("accumlint/microbatches")[2].value == 1
