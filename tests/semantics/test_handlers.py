"""Every effect of the tables has one handler; and every effect of a framework's row matters to a scenario."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from test_library_traces import TRACES

from accumlint.apis import language as api
from accumlint.apis.registry import Registry, Table, load
from accumlint.reading.read import read_module
from accumlint.semantics.effects import HANDLERS
from accumlint.semantics.run import analyse
from accumlint.semantics.trace import render


def test_the_handlers_are_the_effects() -> None:
    assert set(HANDLERS) == set(get_args(api.Effect))


# ------------------------------------------------------------------------------------------------- row mutator

SCENARIOS = [wrap(body) for wrap, body, _ in TRACES.values()]  # type: ignore[operator]
"""The loops whose traces are reviewed in test_library_traces."""

MUTATED = {
    "torch.Tensor.backward": (),
    "torch.optim.Optimizer.step": (),
    "torch.optim.Optimizer.zero_grad": (),
    "torch.nn.utils.clip_grad_norm_": (),
    "torch.amp.GradScaler.scale": (1,),
    "torch.amp.GradScaler.unscale_": (),
    "torch.amp.GradScaler.step": (0,),
    "torch.amp.GradScaler.update": (),
    "torch.optim.lr_scheduler.LRScheduler.step": (),
    "torch.nn.parallel.DistributedDataParallel.no_sync": (),
    "accelerate.Accelerator": (1,),
    "accelerate.Accelerator.backward": (),
    "accelerate.Accelerator.prepare": (),
    "accelerate.Accelerator.clip_grad_norm_": (),
    "deepspeed.initialize": (),
    "lightning.fabric.Fabric.backward": (),
    "lightning.fabric.Fabric.clip_gradients": (1,),
    "lightning.pytorch.LightningModule.manual_backward": (),
    "lightning.pytorch.LightningModule.optimizers": (),
    "torchtune.training.scale_grads": (),
}
"""Rows whose effects are dropped one by one, with the places of those that no scenario here needs: the unscale that a
scaler's step does itself (the scenario unscales before), a scaler that is switched off, an Accelerator made from a
plugin, a clip by value."""


def printed(registry: Registry) -> list[str]:
    return [render(r.default[0]) for source in SCENARIOS for r in analyse(read_module(source, "s.py"), registry)]


def without(registry: Registry, call: str, place: int) -> Registry:
    def mutated(row: api.Row) -> api.Row:
        return replace(row, does=row.does[:place] + row.does[place + 1 :]) if row.call == call else row

    return Registry.of(
        tuple(
            Table(t.name, tuple(mutated(row) for row in t.rows), t.classes, t.patterns, t.renames)
            for t in registry.tables
        )
    )


@pytest.fixture(scope="module")
def reviewed() -> list[str]:
    return printed(load())


@pytest.mark.parametrize("call", MUTATED)
def test_dropping_an_effect_is_seen(call: str, reviewed: list[str]) -> None:
    registry = load()
    rows = [row for table in registry.tables for row in table.rows if row.call == call]
    assert len(rows) == 1
    survivors = [place for place in range(len(rows[0].does)) if printed(without(registry, call, place)) == reviewed]
    assert tuple(survivors) == MUTATED[call]
