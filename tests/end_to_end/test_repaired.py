"""Every repaired script, run as it stands, makes the full-batch update."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from truth import ROOT, check_repaired, codes_of, run_scenarios, scripts

FAULTY = {name: path for name, path in scripts() if codes_of(path.read_text("utf-8"))}


def accumlint(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [sys.executable, "-m", "accumlint", "check", "--isolated", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env=environment,
    )
    assert done.returncode in (0, 1), done.stderr
    return done


def codes_reported(*arguments: str) -> set[str]:
    return {row["code"] for row in json.loads(accumlint("--output-format", "json", *arguments).stdout or "[]")}


def repair_text(path: Path, folder: Path) -> str | None:
    """The text after `--fix --unsafe-fixes` on a copy in `folder`, or None if nothing was changed."""
    copy = folder / path.name
    shutil.copyfile(path, copy)
    accumlint("--fix", "--unsafe-fixes", str(copy))
    text = copy.read_text(encoding="utf-8")
    return None if text == path.read_text(encoding="utf-8") else text


@pytest.mark.parametrize("name", FAULTY)
def test_repaired_script_makes_the_full_batch_update(name: str, tmp_path: Path) -> None:
    path = FAULTY[name]
    original = path.read_text(encoding="utf-8")
    repaired = repair_text(path, tmp_path)
    if repaired is None:
        pytest.skip("no repair is offered")
    # codes_of: only what is printed may be off, the update is right from the start
    assert codes_of(original) == {"ACC403"} or not all(r.right for r in run_scenarios(name, original).values())
    check_repaired(name, repaired, codes_reported(str(tmp_path / path.name)))
    assert repair_text(tmp_path / path.name, tmp_path_again(tmp_path)) is None, "a second pass changes something"


def tmp_path_again(folder: Path) -> Path:
    again = folder / "again"
    again.mkdir()
    return again
