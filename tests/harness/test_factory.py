"""`verify`: the user's file and factory in a subprocess; whatever goes wrong is a result, never "equivalent"."""

from __future__ import annotations

import pytest

pytest.importorskip("torch")

from accumlint.harness import verify, verify_repair
from accumlint.harness.errors import FactoryError
from accumlint.harness.factory import Outcome

pytestmark = pytest.mark.xdist_group("verify")

LOOP = """
import torch
import torch.nn.functional as F

raise_here = None

def train_epoch(net, loader, opt, steps=2):
    window = []
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y) / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()

if __name__ == "__main__":
    raise SystemExit("must not run")
"""
REPAIRED = LOOP.replace("F.cross_entropy(net(x), y) / steps", "F.cross_entropy(net(x), y, reduction='sum')").replace(
    "            opt.step()\n",
    "            n = sum(int((t != -100).sum()) for _, t in loader[i - i % steps : i + 1])\n"
    "            for p in net.parameters():\n                p.grad.div_(max(n, 1))\n            opt.step()\n",
)
FACTORY = """
import torch
import torch.nn.functional as F

def factory():
    g = torch.Generator().manual_seed(0)
    data = []
    for n in (2, 5, 0, 3, 4):
        y = torch.randint(0, 3, (6,), generator=g)
        y[n:] = -100
        data.append((torch.randn(6, 4, generator=g), y))
    return dict(
        model=torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3)),
        microbatches=data,
        loss_sum=lambda model, mb: F.cross_entropy(model(mb[0]), mb[1], reduction="sum"),
        count=lambda mb: int((mb[1] != -100).sum()),
        arguments=lambda model, microbatches, optimizer: {"net": model, "loader": microbatches, "opt": optimizer},
        accumulation_steps=2,
    )

def positional():
    case = factory()
    del case["arguments"]
    return case

def raising():
    raise KeyError("no data")

def incomplete():
    return {"model": 1}

def unknown():
    return {**factory(), "colour": "red"}

def noisy():
    print("hello from the factory")
    return factory()

def hungry():
    bytearray(1 << 40)
    return factory()

def endless():
    while True:
        pass
"""


@pytest.fixture
def files(tmp_path, monkeypatch):
    (tmp_path / "train.py").write_text(LOOP)
    (tmp_path / "my_factory.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_before_and_after_a_repair(files):
    both = verify_repair("train.py::train_epoch", "my_factory:factory", REPAIRED)
    assert both.before.outcome is Outcome.DIFFERENT, both.before
    assert "equal-weight" in {fault["kind"] for fault in both.before.report["faults"]}
    assert both.after.equivalent, both.after
    assert both.confirmed
    assert "equivalent to the full batch" in both.after.text
    assert (files / "train.py").read_text() == LOOP


def test_factory_by_path_positional_and_noisy(files):
    assert verify("train.py::train_epoch", "my_factory.py:positional", text=REPAIRED).equivalent
    result = verify("train.py::train_epoch", "my_factory:noisy", text=REPAIRED)
    assert result.equivalent
    assert "hello from the factory" in result.output


FAILURES = [
    ("my_factory:raising", None, Outcome.FAILED, "no data"),
    ("my_factory:incomplete", None, Outcome.FAILED, "lacks microbatches"),
    ("my_factory:unknown", None, Outcome.FAILED, "colour"),
    ("my_factory:missing", None, Outcome.FAILED, "no function missing"),
    ("no_such_module:factory", None, Outcome.FAILED, "no_such_module"),
    ("my_factory:hungry", None, Outcome.FAILED, "MemoryError"),
    ("my_factory:factory", "def (", Outcome.FAILED, "SyntaxError"),
    ("my_factory:factory", "raise SystemExit(0)", Outcome.FAILED, "SystemExit"),
    ("my_factory:factory", "x = 1", Outcome.FAILED, "no train_epoch"),
    ("my_factory:factory", "def train_epoch(net, loader, opt): pass", Outcome.FAILED, "no optimizer step"),
    ("my_factory:positional", "def train_epoch(net): pass", Outcome.FAILED, "arguments"),
    ("my_factory:factory", "import os\nos._exit(0)", Outcome.CRASHED, ""),
]


@pytest.mark.parametrize(("factory", "text", "outcome", "error"), FAILURES, ids=range(len(FAILURES)))
def test_failures_are_never_equivalent(files, factory, text, outcome, error):
    result = verify("train.py::train_epoch", factory, text=text, timeout=60)
    assert result.outcome is outcome, result
    assert error in result.error + result.error_type


def test_timeout(files):
    result = verify("train.py::train_epoch", "my_factory:endless", timeout=6)
    assert result.outcome is Outcome.TIMEOUT
    assert "6 s" in result.error


@pytest.mark.parametrize(
    ("target", "factory"),
    [("train.py", "m:f"), ("train.py::1x", "m:f"), ("none.py::f", "m:f"), ("train.py::f", "m"), ("train.py::f", ":f")],
)
def test_bad_references(files, target, factory):
    with pytest.raises(FactoryError):
        verify(target, factory)
