"""Windows whose length the code writes down: loops are run until one is whole, or said to be too long."""

from __future__ import annotations

import pytest

from accumlint.apis.registry import load
from accumlint.reading.read import read_module
from accumlint.semantics.run import LARGEST_LITERAL, analyse, window_sizes

HAND = """
import torch.nn.functional as F

def train(model, loader, opt):
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(model(x), y) / {k}).backward()
        if (i + 1) % {k} == 0:
            opt.step()
            opt.zero_grad()
"""
DEEPSPEED = """
import deepspeed
import torch.nn.functional as F

def train(args, model, data):
    engine, _, loader, _ = deepspeed.initialize(
        args=args, model=model, training_data=data, config={{"gradient_accumulation_steps": {k}}}
    )
    for x, y in loader:
        engine.backward(F.cross_entropy(engine(x), y))
        engine.step()
"""
ACCELERATE = """
import torch.nn.functional as F
from accelerate import Accelerator

def train(model, loader, opt):
    accelerator = Accelerator(gradient_accumulation_steps={k})
    model, loader, opt = accelerator.prepare(model, loader, opt)
    for x, y in loader:
        with accelerator.accumulate(model):
            accelerator.backward(F.cross_entropy(model(x), y))
            opt.step()
            opt.zero_grad()
"""


@pytest.mark.parametrize("source", [HAND, DEEPSPEED, ACCELERATE])
@pytest.mark.parametrize("steps", [8, 32, LARGEST_LITERAL])
def test_a_whole_window_is_seen(source: str, steps: int) -> None:
    (result,) = analyse(read_module(source.format(k=steps), "train.py"), load())
    assert result.stopped == ""
    assert steps in window_sizes(result.default[0])


@pytest.mark.parametrize("source", [HAND, DEEPSPEED, ACCELERATE])
def test_a_window_that_is_too_long_is_not_judged(source: str) -> None:
    (result,) = analyse(read_module(source.format(k=LARGEST_LITERAL + 1), "train.py"), load())
    windows = window_sizes(result.default[0])
    assert result.stopped or not windows
