"""Lightning Fabric itself: it divides by nothing, so the loop's own division is what counts."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning", reason="the extra `frameworks` is not installed")

from lightning.fabric import Fabric
from problem import CLIP, K, check, mean, shares, window_total

from accumlint.harness import FaultKind
from accumlint.harness.toys import Toy

pytestmark = pytest.mark.frameworks


def loop(loss, clip=None):
    def train(model, microbatches, optimizer):
        fabric = Fabric(accelerator="cpu", devices=1)
        model, optimizer = fabric.setup(model, optimizer)
        for index, microbatch in enumerate(microbatches):
            is_last = (index + 1) % K == 0 or index + 1 == len(microbatches)
            with fabric.no_backward_sync(model, enabled=not is_last):
                fabric.backward(loss(model, microbatch, window_total(microbatches, index)))
            if is_last:
                if clip:
                    fabric.clip_gradients(model, optimizer, max_norm=clip)
                optimizer.step()
                optimizer.zero_grad()

    return train


def test_the_usual_division_by_the_steps() -> None:
    report = check(loop(lambda model, mb, total: mean(model, mb) / K))
    assert not report.equivalent
    assert shares(report, 1) == pytest.approx([1 / 3] * 3)
    assert report.windows[2].ratio == pytest.approx(1 / K)
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT, FaultKind.SHORT_WINDOW}


@pytest.mark.parametrize("clip", [None, CLIP])
def test_a_division_by_the_count(clip: float | None) -> None:
    report = check(loop(lambda model, mb, total: Toy.loss_sum(model, mb) / total, clip))
    assert report.equivalent, str(report)
    assert report.clips == (3 if clip else 0)
