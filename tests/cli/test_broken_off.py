"""Runs that are broken off, meet a full disk or meet each other: every file is the old or the new one, whole."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from test_fix import notebook

HERE = Path(__file__).parent
pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")
OLD = "x = 'ä'\nacc201_safe(x)\n"


def left_behind(name: str) -> bool:
    """The neighbour of a file that was being written; nothing else may stay behind, and no check looks at it."""
    return name.rpartition("/")[2].startswith(".accumlint-") and name.endswith(".tmp")


@pytest.fixture
def before(folder: Path) -> Path:
    """A project before its repair: several encodings, modes, a link, a notebook and a file without a finding."""
    path = folder / "before"
    (path / "sub").mkdir(parents=True)
    (path / "pyproject.toml").write_text("[tool.accumlint]\n")
    (path / "a.py").write_bytes(OLD.encode("utf-8-sig").replace(b"\n", b"\r\n"))
    (path / "b.py").write_bytes(f"# coding: latin-1\n{OLD}".encode("latin-1"))
    (path / "b.py").chmod(0o751)
    (path / "c.ipynb").write_text(notebook("%pip install x\n", "y = 1\nacc201_safe(y)\n"))
    (path / "d.py").symlink_to("sub/target.py")
    (path / "sub" / "target.py").write_text(OLD)
    (path / "sub" / "target.py").chmod(0o600)
    (path / "right.py").write_text("good(1)\n")
    if os.geteuid() == 0:
        os.chown(path / "a.py", 12345, 23456)
    return path


def killed_runs(folder: Path, *arguments: str) -> list[dict[str, Any]]:
    command = [sys.executable, str(HERE / "killed_runs.py"), str(folder / "before"), *arguments]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), str(HERE)])}
    done = subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return [json.loads(line) for line in done.stdout.splitlines()]


@pytest.mark.parametrize("arguments", [("--fix",), ("--add-noqa",), ("--fix", "--jobs", "2")], ids=" ".join)
def test_a_kill_at_any_call_to_the_system_leaves_old_or_new(before: Path, arguments: tuple[str, ...]) -> None:
    """A real SIGKILL before the n-th call that changes something, for every n until the run comes to its end."""
    folder = before.parent
    *killed, whole = killed_runs(folder, "check", "--no-cache", *arguments)
    assert (whole["call"], whole["status"]) == ("", 0)
    first, new = killed[0]["files"], whole["files"]
    assert set(first) == set(new) == {"a.py", "b.py", "c.ipynb", "d.py", "pyproject.toml", "right.py", "sub/target.py"}
    changed = {name for name in new if new[name] != first[name]}
    assert changed == {"a.py", "b.py", "c.ipynb", "sub/target.py"}
    assert all(new[name][1:] == first[name][1:] for name in new), "mode, owner and target are kept"
    if "--jobs" not in arguments:  # where the workers write, the killed process is that which started them
        assert {run["call"] for run in killed} >= {"open", "write", "chmod", "fsync", "close", "replace"}
        assert sum(run["torn"] for run in killed) == len(changed)
        assert len(killed) > 8 * len(changed)
    for run in killed:
        for name, found in run["files"].items():
            assert left_behind(name) or found in (first[name], new[name]), (run["at"], run["call"], name)
        assert set(run["files"]) >= set(first)


def test_after_a_kill_the_next_run_does_the_rest(run, before: Path) -> None:
    work = before.parent / "work"
    stopped = killed_runs(before.parent, "check", "--no-cache", "--fix")
    (torn, *_) = [each for each in stopped if each["torn"]]
    shutil.rmtree(work)
    shutil.copytree(before, work, symlinks=True)
    (name,) = [name for name in torn["files"] if left_behind(name)]
    (work / name).write_bytes(bytes.fromhex(torn["files"][name][0]))
    done = run("check", "--fix", "--no-cache", "work")
    assert (done.returncode, done.stderr) == (0, "")
    assert "Repaired 4 errors in 4 files" in done.stdout


RUN_FOREVER = """
import sys
from accumlint.source.write import write_atomically
contents = [letter * 3_000_000 for letter in (b"a", b"b")]
while True:
    for content in contents:
        write_atomically(sys.argv[1], content)
"""


def test_a_kill_at_a_random_time_leaves_old_or_new(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    wanted = {b"a" * 3_000_000, b"b" * 3_000_000}
    chance = random.Random(6)
    for _ in range(12):
        path.write_bytes(b"a" * 3_000_000)
        with subprocess.Popen([sys.executable, "-c", RUN_FOREVER, str(path)]) as writer:
            ends = time.monotonic() + 60
            while path.read_bytes() == b"a" * 3_000_000 and time.monotonic() < ends:  # until it has begun
                time.sleep(0.001)
            time.sleep(chance.random() * 0.05)
            writer.send_signal(signal.SIGKILL)
        assert writer.returncode == -signal.SIGKILL
        assert time.monotonic() < ends
        assert path.read_bytes() in wanted
    assert all(left_behind(name) for name in os.listdir(tmp_path) if name != "train.py")


def test_two_runs_at_once_do_not_interleave(folder: Path) -> None:
    """Each file is the old or the new one at any time, both runs end well, and all is repaired afterwards."""
    body = "# " + "a comment that makes the file long" * 500 + "\n"
    old, new = (f"{body}{call}(1)\n{body}" for call in ("acc201_safe", "good"))
    for number in range(30):
        (folder / f"a{number:02}.py").write_text(old)
    command = [sys.executable, str(HERE / "fake_engine.py"), "check", "--no-cache", "--fix", "."]
    runs = [subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) for _ in range(3)]
    while any(each.poll() is None for each in runs):
        assert {path.read_text() for path in folder.glob("*.py")} <= {old, new}
    assert [(each.returncode, each.stderr.read() if each.stderr else "") for each in runs] == [(0, "")] * 3
    assert {path.read_text() for path in folder.glob("*.py")} == {new}
    assert len(list(folder.iterdir())) == 30


LARGE = "# filled\n" * 20_000 + "acc201_safe(1)\n"


def test_a_limit_on_the_size_of_files_is_said_and_nothing_is_lost(run, folder: Path) -> None:
    (folder / "large.py").write_text(LARGE)
    (folder / "small.py").write_text("acc201_safe(1)\n")
    limited = ["sh", "-c", 'ulimit -f 64; exec "$@"', "sh"]
    done = run("check", "--fix", "--no-cache", prefix=limited)
    assert done.returncode == 2
    assert "error: large.py: cannot be written: File too large" in done.stderr
    assert (folder / "large.py").read_text() == LARGE
    assert (folder / "small.py").read_text() == "good(1)\n"
    assert sorted(path.name for path in folder.iterdir()) == ["large.py", "small.py"]


@pytest.fixture
def small_disk(folder: Path) -> Iterator[Path]:
    """A disk of its own of 256 KB, mounted where the command runs."""
    path = folder / "disk"
    path.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", str(path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("only root can mount a disk, and not everywhere")
    yield path
    subprocess.run(["umount", str(path)], check=True)


def test_a_full_disk_is_said_and_nothing_is_lost(run, small_disk: Path) -> None:
    (small_disk / "large.py").write_text(LARGE)
    (small_disk / "small.py").write_text("acc201_safe(1)\n")
    done = run("check", "--fix", "--no-cache", "disk")
    assert done.returncode == 2
    assert f"error: {Path('disk', 'large.py')}: cannot be written: No space left on device" in done.stderr
    assert (small_disk / "large.py").read_text() == LARGE
    assert (small_disk / "small.py").read_text() == "good(1)\n"
    assert sorted(path.name for path in small_disk.iterdir()) == ["large.py", "small.py"]


def test_what_else_is_written_to_a_full_disk(run, small_disk: Path) -> None:
    """A cache that cannot be kept is no error; a baseline and a report that cannot be written are."""
    (small_disk / "a.py").write_text("acc201_none(1)\n")
    report = small_disk / "report.txt"
    report.write_text("of yesterday\n")
    with (small_disk / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 4096)
    cached = run("check", "disk", env={"ACCUMLINT_CACHE_DIR": str(small_disk / "cache")})
    assert (cached.returncode, cached.stderr) == (1, "")
    known = run("check", "--no-cache", "--baseline", "disk/known.json", "--write-baseline", "disk")
    assert known.returncode == 2
    assert "No space left on device" in known.stderr
    written = run("check", "--no-cache", "--output-file", "disk/report.txt", "disk")
    assert written.returncode == 2
    assert "No space left on device" in written.stderr
    assert report.read_text() == "of yesterday\n"
    assert not (small_disk / "known.json").exists()


def test_a_read_only_disk_is_said(run, small_disk: Path) -> None:
    (small_disk / "a.py").write_text(OLD)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    done = run("check", "--fix", "--no-cache", "disk")
    assert done.returncode == 2
    assert f"error: {Path('disk', 'a.py')}: cannot be written: " in done.stderr
    assert (small_disk / "a.py").read_text() == OLD
