"""Repaired Fabric loops, run with the real library: one process, and two gloo ranks that count differently."""

from __future__ import annotations

from functools import cache

import pytest

pytest.importorskip("lightning")

import torch
from fabric_scripts import COUNTED, SCRIPTS
from on_ranks import drive_on_ranks

from accumlint.api import repair_source

pytestmark = pytest.mark.frameworks
RUNS = [(name, counted, world) for name in SCRIPTS for counted in COUNTED for world in (1, 2)]


@cache
def repaired(name: str) -> str:
    """The text after all safe repairs; it must differ."""
    text = repair_source(SCRIPTS[name], f"{name}.py").source
    assert text != SCRIPTS[name]
    return text


@cache
def reports(world: int):
    if world > 1 and not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("torch has no gloo here")
    pairs = [(name, counted) for name, counted, each in RUNS if each == world]
    jobs = [
        (text, "fabric_scripts", f"{name}, {counted}")
        for name, counted in pairs
        for text in (SCRIPTS[name], repaired(name))
    ]
    found = drive_on_ranks(jobs, world)
    return {pair: (found[2 * i], found[2 * i + 1]) for i, pair in enumerate(pairs)}


@pytest.mark.parametrize(("name", "counted", "world"), RUNS)
def test_repaired_loop_makes_the_full_batch_update_of_all_ranks(name: str, counted: str, world: int) -> None:
    before, after = reports(world)[name, counted]
    assert not any(report.right for report in before), "\n".join(report.describe() for report in before)
    for report in after:
        assert report.right, f"{report.describe()}\n{repaired(name)}"
        assert all(step.active_clips == step.clips for step in report.steps if step.reference_norm > 0)
