"""Classes whose caller is elsewhere: who counts their calls, and which methods belong to a microbatch."""

from __future__ import annotations

import textwrap

import pytest

from accumlint.apis.registry import load
from accumlint.reading import ir
from accumlint.reading.read import read_module
from accumlint.semantics.machine import Program
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.siblings import counts_itself, steps_beside

CLASS = """
class Learner:
    def __init__(self, start):
        self.calls = {start}

    def learn(self, loss):
        loss.backward()
        self.calls += 1

    def update(self):
        if self.calls % self.steps == 0:
            self.opt.step()

    def clear(self):
        self.opt.zero_grad()
"""


def parts(source: str) -> tuple[Program, ir.Class, ir.Function]:
    module = read_module(textwrap.dedent(source), "learner.py")
    owner = next(node for node in module.body if isinstance(node, ir.Class))
    learn = next(node for node in owner.body if isinstance(node, ir.Function) and node.name == "learn")
    return Program(module, load(), Relevance.of(module.nodes)), owner, learn


@pytest.mark.parametrize(
    ("start", "more", "answer"),
    [
        ("0", "", True),
        ("start", "", False),  # its maker says where it begins
        ("0", "    def load(self, state):\n        self.calls = state['calls']\n", False),
        ("0", "    def act(self):\n        self.calls += 1\n", False),
        ("0", "    def act(self):\n        self.other = 1\n", True),
    ],
)
def test_who_counts(start: str, more: str, answer: bool) -> None:
    _, owner, learn = parts(CLASS.replace("{start}", start) + "\n" + more)
    assert counts_itself(owner, learn) is answer


@pytest.mark.parametrize(
    ("more", "names"),
    [
        ("", ["update", "clear"]),
        ("    def all(self, loss):\n        self.update()\n", []),  # the class itself says when
        ("\ndef train(learner, losses):\n    for loss in losses:\n        learner.learn(loss)\n", []),
    ],
)
def test_what_is_called_beside(more: str, names: list[str]) -> None:
    program, owner, learn = parts(CLASS.replace("{start}", "0") + "\n" + more)
    assert [method.name for method in steps_beside(program, owner, learn)] == names
