"""Copies and instances of one class are different models: the loss of one has no part in the other's gradient."""

from __future__ import annotations

import pytest

from accumlint.apis.registry import load
from accumlint.reading.read import read_module
from accumlint.semantics.run import analyse
from accumlint.semantics.trace import BACKWARD

TWO_MODELS = """
import copy
import torch
import torch.nn as nn
import torch.nn.functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 2)

    def forward(self, x):
        return self.layer(x)

def train(build, loader):
    {make}
    first = torch.optim.SGD(student.parameters(), lr=0.1)
    second = torch.optim.SGD(teacher.parameters(), lr=0.1)
    for x, y in loader:
        F.mse_loss(student(x), y).backward()
        first.step()
        first.zero_grad()
        F.mse_loss(teacher(x), y).backward()
        second.step()
        second.zero_grad()
"""


@pytest.mark.parametrize(
    "make",
    [
        "student, teacher = Net(), Net()",
        "student = Net(); teacher = copy.deepcopy(student)",
        "student = build(); teacher = copy.deepcopy(student)",
    ],
)
def test_two_models_have_two_gradients(make: str) -> None:
    (result,) = analyse(read_module(TWO_MODELS.format(make=make), "train.py"), load())
    trace = result.default[0]
    assert len(trace.stores) == 2
    for store in trace.stores:
        backwards = [event for event in trace.of_store(store) if event.kind == BACKWARD]
        assert len({event.node for event in backwards}) == 1
