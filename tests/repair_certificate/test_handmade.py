"""Losses written by hand: what the leaf check rebuilds and confirms, and what couples the examples and never passes."""

from __future__ import annotations

import textwrap

import pytest

import accumlint
from accumlint import Applicability, Check

LOOP = """\
import torch
import torch.nn.functional as F

{helper}
def train(model, other, loader, optimizer, accum=4):
    for i, (x, y, mask) in enumerate(loader):
{loss}
        (loss / accum).backward()
        if (i + 1) % accum == 0 or i + 1 == len(loader):
            optimizer.step()
            optimizer.zero_grad()
"""
MASKED_MEAN = "def masked_mean(values, mask):\n    return (values * mask).sum() / mask.sum().clamp(min=1)\n\n"
SMOOTHED = """\
logp = F.log_softmax(model(x), dim=-1)
nll = -logp.gather(-1, y.unsqueeze(-1)).squeeze(-1)
per_token = 0.9 * nll - 0.1 * logp.mean(dim=-1)
loss = (per_token * mask).sum() / mask.sum()"""
FOCAL = """\
ce = F.cross_entropy(model(x), y, reduction="none")
focal = (1 - torch.exp(-ce)) ** 2 * ce
loss = (focal * mask).sum() / mask.sum()"""


def certificate(loss: str, helper: str = "") -> accumlint.Certificate:
    pytest.importorskip("torch")
    text = LOOP.format(loss=textwrap.indent(loss, " " * 8), helper=helper)
    result = accumlint.check_source(text, confirm=True, select=["ACC101", "ACC102"])
    (finding,) = result.findings
    assert finding.fix is not None, finding.unfixable
    return finding.fix.certificate


@pytest.mark.parametrize(
    ("loss", "helper"),
    [
        ("per = (model(x) - y).square()\nloss = (per * mask).sum() / mask.sum()", ""),
        ("loss = masked_mean((model(x) - y).abs(), mask)", MASKED_MEAN),
        (SMOOTHED, ""),
        (FOCAL, ""),
        ("loss = ((model(x) - y) ** 2).mean()", ""),
        ("out = model(x)\nloss = torch.mean(torch.abs(out.logits - y))", ""),
        ('per = F.cross_entropy(model(x), y, reduction="none")\nloss = per[mask].mean()', ""),
        ('loss = F.mse_loss(model(x), y, reduction="none").mean(dim=-1).mean()', ""),
        ('loss = F.l1_loss(model(x), y, reduction="none").mean(-1).masked_select(mask).mean()', ""),
        ('per = F.l1_loss(model(x), y, reduction="none").mean(-1)\nloss = (per * mask).sum() / mask.sum()', ""),
    ],
)
def test_separable_losses_are_confirmed(loss: str, helper: str) -> None:
    found = certificate(loss, helper)
    assert found.applicability is Applicability.SAFE, found.missing
    measure = next(each for each in found.measures if each.check is Check.LEAF_CHECKED)
    assert measure.error <= measure.limit
    assert len({n for pair in measure.counts for n in pair}) > 1


@pytest.mark.parametrize(
    ("loss", "helper"),
    [
        ("out = model(x)\nper = (out - out.mean(0)) ** 2\nloss = (per * mask).sum() / mask.sum()", ""),
        ("out = model(x)\nloss = (out - out.mean(0)).square().mean()", ""),
        ('per = F.l1_loss(model(x), y, reduction="none").mean(0)\nloss = (per * mask).sum() / mask.sum()', ""),
        ('loss = F.l1_loss(model(x), y, reduction="none").mean(0).masked_select(mask).mean()', ""),
        ("out = model(x)\nper = (out / out.std() - y).abs()\nloss = (per * mask).sum() / mask.sum()", ""),
        ("out = model(x)\nper = out.softmax(0) * y\nloss = (per * mask).sum() / mask.sum()", ""),
        ("loss = other(model(x), y).mean()", ""),
        ("z = model(x)\nloss = z.compared().mean()", ""),
        (
            "loss = scores(model(x), y).abs().mean()",
            'def scores(a, b):\n    return torch.einsum("id,jd->ij", a, b)\n\n',
        ),
    ],
)
def test_coupled_or_unseen_losses_are_not(loss: str, helper: str) -> None:
    found = certificate(loss, helper)
    assert found.applicability is not Applicability.SAFE
    assert Check.LEAF_CHECKED not in found.discharged
    assert any(line.startswith("not leaf-checked: ") for line in found.missing)


def test_a_loss_over_the_pairs_of_a_batch_is_not_weighed() -> None:
    """No count makes it a sum over examples: it is ACC402's, where that is selected."""
    loss = "z = F.normalize(model(x), dim=-1)\nsim = z @ z.T\nloss = (sim * mask).sum() / mask.sum()"
    text = LOOP.format(loss=textwrap.indent(loss, " " * 8), helper="")
    assert not accumlint.check_source(text, select=["ACC101", "ACC102", "ACC103"]).findings
    assert [each.code for each in accumlint.check_source(text, select=["ACC402"]).findings] == ["ACC402"]


def test_a_count_that_torch_refutes_is_only_displayed() -> None:
    found = certificate("out = model(x)\nloss = (out - out.mean(0)).square().mean()")
    assert found.applicability is Applicability.DISPLAY
    assert "torch does not confirm it" in found.disagreement


@pytest.mark.parametrize(
    ("loss", "count", "written"),
    [
        ("loss = ((model(x) - y) ** 2).mean()", "loss_values.numel()", "loss_values = (model(x) - y) ** 2\n"),
        ("per = (model(x) - y).abs()\nloss = per.mean()", "per.numel()", "loss = per.sum()"),
    ],
)
def test_a_mean_over_elements_becomes_their_sum(loss: str, count: str, written: str) -> None:
    text = LOOP.format(loss=textwrap.indent(loss, " " * 8), helper="")
    new = accumlint.repair_source(text, unsafe=True).source
    assert f"num_targets += {count}\n" in new
    assert written in new
    assert ".mean()" not in new
    assert not accumlint.check_source(new).findings
