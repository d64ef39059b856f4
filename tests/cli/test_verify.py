"""`accumlint verify`: the user's own code, in real processes; whatever goes wrong is exit 2 and a line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.xdist_group("verify")
TUTORIAL = Path(__file__).resolve().parents[2] / "docs" / "tutorial"
TARGET = "train.py::train_epoch"
LOOP = """
import torch
import torch.nn.functional as F

def train_epoch(net, loader, opt, steps=2):
    for i, (x, y) in enumerate(loader):
        loss = F.cross_entropy(net(x), y, ignore_index=-100) / steps
        loss.backward()
        if (i + 1) % steps == 0 or i + 1 == len(loader):
            opt.step()
            opt.zero_grad()
"""
RIGHT = """
import torch.nn.functional as F

def train_epoch(net, loader, opt, steps=2):
    for start in range(0, len(loader), steps):
        window = loader[start : start + steps]
        n = sum(int((y != -100).sum()) for _, y in window)
        for x, y in window:
            (F.cross_entropy(net(x), y, reduction="sum") / max(n, 1)).backward()
        opt.step()
        opt.zero_grad()
"""
FACTORY = """
import os
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

def raising():
    raise KeyError("no\\ndata")

def endless():
    while True:
        pass

def dying():
    print("equivalent", flush=True)
    os._exit(0)

def hungry():
    bytearray(1 << 32)
    return factory()
"""


def verify(*arguments: str) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(
        [sys.executable, "-m", "accumlint", "verify", *arguments],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        env={**os.environ, "PYTHONIOENCODING": "utf-8"},
    )
    assert "Traceback" not in done.stdout + done.stderr, done
    return done


@pytest.fixture
def files(folder: Path) -> Path:
    (folder / "train.py").write_text(LOOP)
    (folder / "case.py").write_text(FACTORY)
    return folder


def test_a_wrong_loop_and_its_repair(files: Path) -> None:
    pytest.importorskip("torch")
    done = verify(TARGET, "--factory", "case:factory")
    assert done.returncode == 1, done
    assert "RUNS YOUR CODE" in done.stderr
    assert "as it is: NOT equivalent to the full batch" in done.stdout
    assert "repaired (not written): equivalent to the full batch" in done.stdout
    assert "certificate: end-to-end" in done.stdout
    assert (files / "train.py").read_text() == LOOP


def test_the_loop_of_the_tutorial(files: Path) -> None:
    """Its repair cures the weights and the dropped tail together."""
    pytest.importorskip("torch")
    for name in ("finetune.py", "case.py"):
        shutil.copy(TUTORIAL / name, files)
    done = verify("finetune.py::finetune", "--factory", "case:factory")
    assert done.returncode == 1, done
    assert "gradient is left over when the loop ends" in done.stdout
    assert "certificate: end-to-end" in done.stdout


def test_a_right_loop(files: Path) -> None:
    pytest.importorskip("torch")
    (files / "train.py").write_text(RIGHT)
    done = verify(TARGET, "--factory", "case.py:factory")
    assert done.returncode == 0, done
    assert done.stdout.startswith("as it is: equivalent to the full batch")


@pytest.mark.parametrize(
    ("factory", "options", "message"),
    [
        ("case:raising", (), "could not be checked: the factory raised KeyError"),
        ("case:endless", ("--timeout", "6"), "timed out: no result within 6 s"),
        ("case:dying", (), "crashed: the process ended with 0"),
        ("case:hungry", ("--memory", "1000"), "MemoryError"),
        ("case:missing", (), "no function missing"),
        ("no_such_module:factory", (), "no_such_module"),
    ],
)
def test_failures(files: Path, factory: str, options: tuple[str, ...], message: str) -> None:
    pytest.importorskip("torch")
    done = verify(TARGET, "--factory", factory, *options)
    assert (done.returncode, done.stdout) == (2, ""), done
    said = done.stderr.splitlines()
    assert len(said) == 2, said
    assert said[1].startswith("error: ")
    assert message in said[1]


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of this kind")
def test_limits_that_are_lower_already_are_kept(files: Path) -> None:
    pytest.importorskip("torch")
    command = f"ulimit -t 100; exec {sys.executable} -m accumlint verify {TARGET} --factory case:factory --timeout 300"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 1, done
    assert "certificate: end-to-end" in done.stdout


def test_torch_is_missing(files: Path) -> None:
    (files / "torch.py").write_text("raise ImportError('none here')\n")
    done = verify(TARGET, "--factory", "case:factory")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert "torch cannot be imported: pip install" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((TARGET,), "is only run with --factory"),
        (("train.py", "--factory", "case:factory"), "train.py::FUNCTION"),
        (("none.py::f", "--factory", "case:factory"), "none.py: cannot be read"),
        (("train.py::1x", "--factory", "case:factory"), "expected path.py::function"),
        ((TARGET, "--factory", "case"), "expected module:function"),
        ((TARGET, "--factory", "case:factory", "--timeout", "0"), "--timeout"),
    ],
)
def test_bad_arguments(files: Path, arguments: tuple[str, ...], message: str) -> None:
    done = verify(*arguments)
    assert done.returncode == 2
    assert message in done.stderr, done


def test_without_a_factory(files: Path) -> None:
    (files / "train.py").write_text(LOOP + "\nraise SystemExit('must not run')\n")
    done = verify("train.py")
    assert done.returncode == 1, done
    assert "your loop, model and data are not run" in done.stdout
    assert "  certificate: " in done.stdout
    assert "a factory would add: end-to-end" in done.stdout
    assert "must not run" not in done.stdout + done.stderr


def test_without_a_factory_and_findings(files: Path) -> None:
    (files / "train.py").write_text("x = 1\n")
    done = verify("train.py")
    assert done.returncode == 0
    assert "equivalence was not checked" in done.stdout
    (files / "train.py").write_text("def (")
    done = verify("train.py")
    assert (done.returncode, done.stdout) == (2, ""), done
    assert done.stderr.startswith("error: train.py:1: ")
