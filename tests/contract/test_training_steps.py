"""A Trainer's own `training_step`: an undivided mean is found; what divides, hands on, or is not seen is not."""

from __future__ import annotations

import textwrap

import pytest

from accumlint.contract.judge import judge_regions
from accumlint.contract.verdict import Clause
from accumlint.reading.read import read_module

HEAD = """\
import torch.nn.functional as F
import transformers
from transformers import Trainer


class Own({base}):
    def training_step(self, model, inputs{more}):
"""
MORE = ", num_items_in_batch=None"
MEAN = 'loss = F.cross_entropy(model(inputs["x"]), inputs["y"])\n'
BACKWARD = "self.accelerator.backward(loss)\nreturn loss.detach() / self.args.gradient_accumulation_steps\n"
FOUND = {
    "a mean": MEAN + BACKWARD,
    "a mean that is negated first": 'losses = -model(inputs["x"]).logits\nloss = losses.mean()\n' + BACKWARD,
}
SILENT = {
    "divided by hand": MEAN + "loss = loss / self.args.gradient_accumulation_steps\n" + BACKWARD,
    "divided if there are steps": MEAN
    + "if self.args.gradient_accumulation_steps > 1:\n    loss = loss / self.args.gradient_accumulation_steps\n"
    + BACKWARD,
    "a sum over the count": 'loss = F.cross_entropy(model(inputs["x"]), inputs["y"], reduction="sum")\n'
    "loss = loss / num_items_in_batch\n" + BACKWARD,
    "a loss that is not seen": "loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)\n"
    + BACKWARD,
    "handed on": MEAN + "return super().training_step(model, inputs, num_items_in_batch)\n",
    "the version is asked": 'if transformers.__version__ > "4":\n    pass\n' + MEAN + BACKWARD,
}


def lines(body: str, base: str = "Trainer", more: str = MORE) -> list[str]:
    """The source of each line that is reported."""
    source = HEAD.format(base=base, more=more) + textwrap.indent(body, "        ")
    module = read_module(source, "snippet.py")
    judged = [violation for each in judge_regions(module) for violation in each.violations]
    found = [violation for violation in judged if violation.clause is Clause.NO_DIVISION]
    return [source.splitlines()[module.syntax.span(each.node).line - 1].strip() for each in found]


@pytest.mark.parametrize("body", FOUND.values(), ids=FOUND)
def test_an_undivided_mean(body: str) -> None:
    assert lines(body) == ["self.accelerator.backward(loss)"]


@pytest.mark.parametrize("body", SILENT.values(), ids=SILENT)
def test_what_is_left_alone(body: str) -> None:
    assert lines(body) == []


def test_an_old_trainer_and_another_class_are_left_alone() -> None:
    assert lines(FOUND["a mean"], more="") == []
    assert lines(FOUND["a mean"], base="object") == []
