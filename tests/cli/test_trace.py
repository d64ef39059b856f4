"""`accumlint trace`: every region of a file, one event a line."""

from __future__ import annotations

from pathlib import Path

LOOP = """
import torch.nn.functional as F

def train(net, loader, opt):
    for i, (x, y) in enumerate(loader):
        (F.cross_entropy(net(x), y) / 2).backward()
        if (i + 1) % 2 == 0:
            opt.step()
            opt.zero_grad()
"""


def test_events_in_order(run, folder: Path) -> None:
    (folder / "a.py").write_text(LOOP + LOOP.replace("train", "again"))
    done = run("trace", "a.py", fake=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert [line for line in lines if line.startswith("region")] == ["region train", "region again"]
    start = lines.index("backward opt k1: 1/2*mean1[1]")
    assert lines[start + 1 : start + 4] == [
        "backward opt k2: 1/2*mean1[1] + 1/2*mean1[2]",
        "step     opt k2: 1/2*mean1[1] + 1/2*mean1[2]",
        "clear    opt k2: 1/2*mean1[1] + 1/2*mean1[2]",
    ]


def test_nothing_to_trace_and_bad_files(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\n")
    done = run("trace", "a.py", fake=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "a.py: no training loop\n")
    (folder / "b.py").write_text("x = 1\ndef (")
    done = run("trace", "b.py", fake=False)
    assert done.returncode == 2
    assert done.stderr.startswith("error: b.py:2: ")
    assert run("trace", "none.py", fake=False).returncode == 2
