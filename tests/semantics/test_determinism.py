"""The same source gives the same traces, in one process and in another with another hash seed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from loop_snippets import results

from accumlint.semantics.trace import render

CASES = Path(__file__).parents[1] / "cases" / "dev"
NAMES = (
    "acc101_policy_micro_token_mean",
    "acc104_accelerate_manual_division",
    "acc303_scaler_no_clear",
    "ok_gan_two_optimizers",
    "ok_ppo_epochs",
)


def everything(source: str) -> str:
    parts = []
    for result in results(source):
        for each in (*result.default, *(t for traces in result.flipped for t in traces)):
            parts += [render(each), *each.assumptions, *map(str, each.counts), str(sorted(each.lineages.items()))]
    return "\n".join(parts)


def source_of(name: str) -> str:
    return (CASES / f"{name}.py").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NAMES)
def test_twice_in_one_process(name: str) -> None:
    assert everything(source_of(name)) == everything(source_of(name))


def test_another_process_with_another_hash_seed() -> None:
    code = "from test_determinism import *\nfor name in NAMES: print(everything(source_of(name)))"
    here = Path(__file__).parent
    printed = set()
    for seed in ("1", "4242"):
        environment = os.environ | {"PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join([str(here), *sys.path])}
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, env=environment, timeout=120, check=True
        )
        printed.add(done.stdout)
    assert len(printed) == 1
    assert "backward" in printed.pop()
