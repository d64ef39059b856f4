"""DeepSpeed itself, on the CPU in fp32 (it reduces no fp64): `backward` divides by the steps, a tail is never used."""

from __future__ import annotations

import os

import pytest

pytest.importorskip("torch")
os.environ.setdefault("DS_ACCELERATOR", "cpu")
pytest.importorskip("deepspeed", reason="the extra `frameworks` is not installed, or DeepSpeed does not install here")

import torch
from problem import K, check, mean, shares, window_total

from accumlint.harness import FaultKind, deepspeed_loop
from accumlint.harness.toys import Toy

pytestmark = pytest.mark.frameworks
BUILD = 900.0  # seconds: its first loop on a machine compiles an extension
CONFIG = {"gradient_accumulation_steps": K, "gradient_clipping": 0.0}


def test_equal_mean_and_a_dropped_tail() -> None:
    report = check(deepspeed_loop(CONFIG, mean), dtype=torch.float32, timeout=BUILD)
    assert not report.equivalent
    assert shares(report, 1) == pytest.approx([1 / 3] * 3, rel=1e-5)
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT, FaultKind.LEFTOVER}


def test_its_own_clip_at_1_is_seen() -> None:
    """`gradient_clipping` is 1.0 unless given, by its own function; the weights are shown all the same."""
    loop = deepspeed_loop({"gradient_accumulation_steps": K}, lambda engine, mb: 20 * mean(engine, mb))
    report = check(loop, loss_sum=lambda model, mb: 20 * Toy.loss_sum(model, mb), dtype=torch.float32, timeout=BUILD)
    assert any("clips at 1 by other means" in text for text in report.assumptions)
    assert shares(report, 1) == pytest.approx([1 / 3] * 3, rel=1e-5)
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT, FaultKind.LEFTOVER}


def test_the_windows_count() -> None:
    def train(model, microbatches, optimizer):
        totals = {id(mb): window_total(microbatches, index) for index, mb in enumerate(microbatches)}
        loop = deepspeed_loop(CONFIG, lambda engine, mb: Toy.loss_sum(engine, mb) * K / totals[id(mb)])
        loop(model, microbatches[:6], optimizer)

    report = check(train, dtype=torch.float32, timeout=BUILD)
    assert not report.equivalent  # the seventh is not used, which DeepSpeed would not do either
    assert [window.error < report.tolerance for window in report.windows] == [True, True]
    assert {fault.kind for fault in report.faults} == {FaultKind.BOUNDARY}
