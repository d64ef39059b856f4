"""The plugin in a pytest of its own, with and without xdist: what a user's test file would see."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("torch")

USER_TESTS = """
import pytest, torch, torch.nn.functional as F
torch.set_num_threads(1)

def data():
    g = torch.Generator().manual_seed(0)
    for n in (2, 5, 0, 3, 4):
        y = torch.randint(0, 3, (6,), generator=g)
        y[n:] = -100
        yield torch.randn(6, 4, generator=g), y

def loss_sum(model, mb): return F.cross_entropy(model(mb[0]), mb[1], reduction="sum")
def count(mb): return int((mb[1] != -100).sum())
PROBLEM = dict(loss_sum=loss_sum, count=count)

def right(model, mbs, opt):
    for i in range(0, len(mbs), 2):
        n = sum(map(count, mbs[i:i + 2]))
        for mb in mbs[i:i + 2]:
            (loss_sum(model, mb) / n).backward()
        opt.step(); opt.zero_grad()

def wrong(model, mbs, opt):
    for i in range(0, len(mbs), 2):
        for mb in mbs[i:i + 2]:
            (F.cross_entropy(model(mb[0]), mb[1]) / 2).backward()
        opt.step(); opt.zero_grad()

@pytest.mark.accumcheck(accumulation_steps=2, complete=True)
def test_right(assert_equivalent):
    assert_equivalent(right, torch.nn.Linear(4, 3), list(data()), **PROBLEM)

@pytest.mark.accumcheck(dtype=torch.float32)
def test_report(accumcheck):
    report = accumcheck(right, torch.nn.Linear(4, 3), list(data()), **PROBLEM)
    assert report.dtype == "float32"

def test_wrong(assert_equivalent):
    assert_equivalent(wrong, torch.nn.Linear(4, 3), list(data()), **PROBLEM)
"""


@pytest.mark.parametrize("extra", [[], ["-n", "2"]], ids=["plain", "xdist"])
def test_plugin(tmp_path, extra):
    (tmp_path / "test_user.py").write_text(USER_TESTS)
    (tmp_path / "pytest.ini").write_text("[pytest]\naddopts = --strict-markers\n")
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    xdist = ["-p", "xdist.plugin", *extra] if extra else []
    plugin = ["-p", "accumlint.harness.pytest_plugin"]
    command = [sys.executable, "-m", "pytest", *plugin, *xdist, "-q", "-p", "no:cacheprovider", "."]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=120)
    assert "1 failed, 2 passed" in result.stdout, result.stdout + result.stderr
    assert "NOT equivalent to the full batch" in result.stdout
    assert "every microbatch has equal weight" in result.stdout


def test_the_plugin_imports_no_torch():
    code = "import accumlint.harness.pytest_plugin, sys; raise SystemExit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], timeout=60).returncode == 0
