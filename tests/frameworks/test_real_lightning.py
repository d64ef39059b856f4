"""Lightning's Trainer itself: automatic optimisation steps with a closure and divides by the accumulation steps."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")
pytest.importorskip("lightning", reason="the extra `frameworks` is not installed")

import lightning.pytorch as lightning
from problem import CLIP, TOY, K, check, mean, shares, window_total

from accumlint.harness import FaultKind, HarnessError, lightning_loop
from accumlint.harness.toys import Toy

pytestmark = pytest.mark.frameworks


class Automatic(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.net = TOY.model

    def forward(self, inputs):
        return self.net(inputs)

    def training_step(self, batch, batch_idx):
        return mean(self, batch)


class Counted(Automatic):
    """Knows the window's count, and takes back the division by K."""

    def training_step(self, batch, batch_idx):
        return Toy.loss_sum(self, batch) * K / window_total(TOY.microbatches, batch_idx)


class Manual(Automatic):
    def __init__(self, *, by_count: bool) -> None:
        super().__init__()
        self.automatic_optimization = False
        self.by_count = by_count

    def training_step(self, batch, batch_idx):
        optimizer = self.optimizers()
        total = window_total(TOY.microbatches, batch_idx)
        self.manual_backward(Toy.loss_sum(self, batch) / total if self.by_count else mean(self, batch) / K)
        if (batch_idx + 1) % K == 0 or self.trainer.is_last_batch:
            optimizer.step()
            optimizer.zero_grad()


AUTOMATIC = lightning_loop(accumulate_grad_batches=K)


def test_automatic_has_an_equal_mean_and_an_under_scaled_tail() -> None:
    report = check(AUTOMATIC, Automatic())
    assert not report.equivalent
    assert report.steps == 3
    assert shares(report, 0) == pytest.approx([1 / 3, 1 / 3, None])
    assert shares(report, 2) == pytest.approx([1 / 3])
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT, FaultKind.SHORT_WINDOW}


@pytest.mark.parametrize("options", [{}, {"gradient_clip_val": CLIP}], ids=["no clip", "clip"])
def test_automatic_with_the_windows_count(options: dict[str, float]) -> None:
    report = check(lightning_loop(accumulate_grad_batches=K, **options), Counted())
    assert report.equivalent, str(report)
    assert report.clips == (3 if options else 0)


def test_manual() -> None:
    report = check(lightning_loop(), Manual(by_count=False))
    assert shares(report, 1) == pytest.approx([1 / 3] * 3)
    assert {fault.kind for fault in report.faults} == {FaultKind.EQUAL_WEIGHT, FaultKind.SHORT_WINDOW}
    report = check(lightning_loop(), Manual(by_count=True))
    assert report.equivalent, str(report)


def test_another_module_is_refused() -> None:
    with pytest.raises(HarnessError, match="needs a LightningModule, not Sequential"):
        check(AUTOMATIC)
