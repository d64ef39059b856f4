"""Microbatches that are cut from one batch: `chunk`, `split`, `tensor_split`, and what only looks like them."""

from __future__ import annotations

import textwrap

import pytest

from accumlint import check_source

LOOP = """
import numpy as np
import torch
import torch.nn.functional as F

def train(model, opt, data, args):
    for x, y in data:
        opt.zero_grad()
        for xs, ys in zip({inputs}, {targets}):
            loss = F.cross_entropy(model(xs), ys, ignore_index=-100)
            ({loss}).backward()
        opt.step()
"""


def codes(source: str) -> list[str]:
    return [finding.code for finding in check_source(textwrap.dedent(source), "train.py").findings]


@pytest.mark.parametrize(
    ("inputs", "targets", "loss"),
    [
        ("x.chunk(4)", "y.chunk(4)", "loss / 4"),
        ("torch.chunk(x, 4)", "torch.chunk(y, 4)", "loss / 4"),
        ("x.tensor_split(5)", "y.tensor_split(5)", "loss / 5"),
        ("np.array_split(x, 4)", "np.array_split(y, 4)", "loss / 4"),
        ("x.chunk(args.micro)", "y.chunk(args.micro)", "loss / args.micro"),
        ("x.split(args.size)", "y.split(args.size)", "loss / len(x.split(args.size))"),
    ],
)
def test_means_of_parts_of_a_batch_are_averaged_equally(inputs: str, targets: str, loss: str) -> None:
    assert codes(LOOP.format(inputs=inputs, targets=targets, loss=loss)) == ["ACC101"]


def test_a_loss_that_is_not_divided_by_the_number_of_parts() -> None:
    assert codes(LOOP.format(inputs="x.chunk(4)", targets="y.chunk(4)", loss="loss")) == ["ACC103"]


def test_the_count_of_the_whole_batch_is_right() -> None:
    source = """
    import torch.nn.functional as F

    def train(model, opt, data):
        for x, y in data:
            opt.zero_grad()
            count = (y != -100).sum()
            for xs, ys in zip(x.chunk(4), y.chunk(4)):
                loss = F.cross_entropy(model(xs), ys, ignore_index=-100, reduction="sum")
                (loss / count).backward()
            opt.step()
    """
    assert codes(source) == []


def test_halves_of_what_a_model_computed_are_no_microbatches() -> None:
    source = """
    import torch
    import torch.nn.functional as F

    def train(model, opt, data):
        for x, y in data:
            value, gate = model(x).chunk(2, dim=1)
            first, second = model(x).chunk(2)
            loss = F.mse_loss(value * torch.sigmoid(gate), y) + (first * second).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    """
    assert codes(source) == []
