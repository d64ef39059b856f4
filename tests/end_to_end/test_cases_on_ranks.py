"""Distributed cases as they stand and as they are repaired, on one and on two gloo ranks that see different data."""

from __future__ import annotations

import importlib.util
from functools import cache

import pytest
import torch
from on_ranks import drive_on_ranks
from rank_specs import ACCELERATE, PROBLEMS, WORLDS
from truth import CASES, codes_of, possible_faults

from accumlint.api import repair_source

HERE = [name for name in PROBLEMS if name not in ACCELERATE or importlib.util.find_spec("accelerate")]
DECLARED = {"acc101_accelerate_causal_lm"}  # its count is declared by a loss contract: right, but not called safe
RUNS = [(name, world) for name in PROBLEMS for world in WORLDS[name]]
FAULTY = [run for run in RUNS if not run[0].startswith("ok_")]


def text_of(name: str) -> str:
    """As it stands, but without autocast: the comparison is in fp64."""
    return (CASES / f"{name}.py").read_text("utf-8").replace('mixed_precision="bf16"', 'mixed_precision="no"')


@cache
def repaired(name: str) -> str:
    text = repair_source(text_of(name), f"{name}.py", unsafe=name in DECLARED).source
    assert (text == text_of(name)) == name.startswith("ok_")
    return text


@cache
def reports(world: int):
    if world > 1 and not (torch.distributed.is_available() and torch.distributed.is_gloo_available()):
        pytest.skip("torch has no gloo here")
    names = [name for name in HERE if world in WORLDS[name]]
    jobs = [(text, "rank_specs", name) for name in names for text in (text_of(name), repaired(name))]
    found = drive_on_ranks(jobs, world)
    return {name: (found[2 * i], found[2 * i + 1]) for i, name in enumerate(names)}


@pytest.mark.parametrize(("name", "world"), FAULTY)
def test_case_is_wrong_and_its_repair_is_right_on_ranks(name: str, world: int) -> None:
    if name not in HERE:
        pytest.skip("accelerate is not installed")
    before, after = reports(world)[name]
    codes = codes_of(text_of(name))
    # a prepared scheduler moves once for each process, as Accelerate documents
    schedule = {"schedule"} if world > 1 and name in ACCELERATE else set()
    for report in before:
        assert not report.right, report.describe()
        assert report.faults <= possible_faults(codes) | schedule, report.describe()
    for report in after:
        assert report.faults <= schedule, f"{report.describe()}\n{repaired(name)}"
        assert all(step.active_clips == step.clips for step in report.steps if step.reference_norm > 0)


@pytest.mark.parametrize(("name", "world"), [run for run in RUNS if run not in FAULTY])
def test_right_case_is_right_on_ranks_and_left_alone(name: str, world: int) -> None:
    before, _ = reports(world)[name]
    for report in before:
        assert report.right, report.describe()
