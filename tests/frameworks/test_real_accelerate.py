"""Accelerate itself: `backward` divides by the accumulation steps, on the short last window too."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("accelerate", reason="the extra `frameworks` is not installed")

import torch
from accelerate import Accelerator
from problem import CLIP, TOY, K, check, mean, shares, window_total

from accumlint.harness import FaultKind
from accumlint.harness.toys import Toy

pytestmark = pytest.mark.frameworks


def loop(loss, clip=None):
    def train(model, microbatches, optimizer):
        accelerator = Accelerator(cpu=True, gradient_accumulation_steps=K)
        loader = torch.utils.data.DataLoader(microbatches, batch_size=None)
        model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
        for index, microbatch in enumerate(loader):
            with accelerator.accumulate(model):
                accelerator.backward(loss(model, microbatch, window_total(microbatches, index)))
                if clip and accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
                optimizer.zero_grad()

    return train


def test_equal_mean_and_an_under_scaled_tail() -> None:
    report = check(loop(lambda model, mb, total: mean(model, mb)))
    assert not report.equivalent
    assert report.steps == 3
    assert shares(report, 0) == pytest.approx([1 / 3, 1 / 3, None])
    assert shares(report, 2) == pytest.approx([1 / 3])  # one microbatch, divided by K all the same
    assert report.windows[2].ratio == pytest.approx(1 / K)
    assert report.has(FaultKind.EQUAL_WEIGHT)
    assert report.has(FaultKind.SHORT_WINDOW)
    assert "leaves 1/3 of its gradient" in str(report)


@pytest.mark.parametrize("clip", [None, CLIP])
def test_the_documented_count(clip: float | None) -> None:
    """`loss_sum * K / total`: the factor takes back what `backward` divides by."""
    report = check(loop(lambda model, mb, total: TOY.loss_sum(model, mb) * K / total, clip))
    assert report.equivalent, str(report)
    assert report.clips == (3 if clip else 0)


def test_a_count_without_the_factor() -> None:
    report = check(loop(lambda model, mb, total: Toy.loss_sum(model, mb) / total))
    assert [w.ratio for w in report.windows] == pytest.approx([1 / K] * 3)
    assert report.has(FaultKind.DIVIDED_TWICE)
