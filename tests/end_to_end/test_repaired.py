"""Every repaired script, run as it stands, makes the full-batch update; a second pass changes nothing."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pytest
from truth import ROOT, check_repaired, codes_of, run_scenarios, scripts

FAULTY = {name: path for name, path in scripts() if codes_of(path.read_text("utf-8"))}
RIGHT = {name: path for name, path in scripts() if name not in FAULTY}


@dataclass(frozen=True)
class Repaired:
    texts: dict[str, str | None]  # None: nothing was changed
    remaining: dict[str, set[str]]  # codes still reported afterwards
    again: dict[str, str | None]  # what a second pass makes of it
    trouble: list[str]  # messages of runs that could not check some file


def limit_memory() -> None:
    """A runaway analysis fails by itself and leaves the machine alone."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


def accumlint(*arguments: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    return subprocess.run(
        [sys.executable, "-m", "accumlint", "check", "--isolated", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=900,
        env=environment,
        preexec_fn=limit_memory,
    )


def repair_texts(paths: Iterable[Path], folder: Path, trouble: list[str]) -> dict[str, str | None]:
    """{name: text after `--fix --unsafe-fixes` on a copy in `folder`, None if unchanged}: one run for all scripts."""
    folder.mkdir()
    originals = {path.stem: shutil.copyfile(path, folder / path.name).read_text(encoding="utf-8") for path in paths}
    done = accumlint("--fix", "--unsafe-fixes", str(folder))
    if done.returncode not in (0, 1):
        trouble.append(f"repair in {folder.name}: exit {done.returncode}: {done.stderr[-2000:]}")
    texts = {name: (folder / f"{name}.py").read_text(encoding="utf-8") for name in originals}
    return {name: None if text == originals[name] else text for name, text in texts.items()}


# of the session: the tests of a group may be interrupted by those of another module, which ends what a module shares
@pytest.fixture(scope="session")
def repaired(tmp_path_factory: pytest.TempPathFactory) -> Repaired:
    folder, trouble = tmp_path_factory.mktemp("repaired"), []
    texts = repair_texts([*FAULTY.values(), *RIGHT.values()], folder / "once", trouble)
    remaining: dict[str, set[str]] = {name: set() for name in texts}
    done = accumlint("--output-format", "json", str(folder / "once"))
    if done.returncode not in (0, 1):
        trouble.append(f"check of the repaired: exit {done.returncode}: {done.stderr[-2000:]}")
    for row in json.loads(done.stdout or "[]"):
        remaining[Path(row["filename"]).stem].add(row["code"])
    again = repair_texts(sorted((folder / "once").glob("*.py")), folder / "twice", trouble)
    return Repaired(texts, remaining, again, trouble)


@pytest.mark.xdist_group("repaired")
def test_every_script_can_be_checked_and_repaired(repaired: Repaired) -> None:
    assert not repaired.trouble, "\n".join(repaired.trouble)


@pytest.mark.xdist_group("repaired")
@pytest.mark.parametrize("name", FAULTY)
def test_repaired_script_makes_the_full_batch_update(name: str, repaired: Repaired) -> None:
    text = repaired.texts[name]
    if text is None:
        pytest.skip("no repair is offered")
    original = FAULTY[name].read_text(encoding="utf-8")
    if codes_of(original) != {"ACC403"}:  # there only what is printed is off
        assert not all(report.right for report in run_scenarios(name, original).values())
    check_repaired(name, text, repaired.remaining[name])
    assert repaired.remaining[name] <= codes_of(original), "the repair raises a new finding"
    assert repaired.again[name] is None, "a second pass changes something"


@pytest.mark.xdist_group("repaired")
@pytest.mark.parametrize("name", RIGHT)
def test_right_script_is_left_alone(name: str, repaired: Repaired) -> None:
    assert repaired.texts[name] is None
