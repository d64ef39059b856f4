"""The codemod with the real `python -m libcst.tool`: the same result as `accumlint check --fix`, file by file."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

SAMPLES = Path(__file__).parents[2] / "samples"
COMMAND = ("-x", "accumlint.codemod.WeightedAccumulation", "--no-format")


def codemod(*arguments: str, folder: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "libcst.tool", "codemod", *arguments]
    return subprocess.run(
        command, cwd=folder, input=stdin, capture_output=True, text=True, timeout=300, check=False, env={**os.environ}
    )


def check(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "accumlint", "check", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=300, check=False)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.glob("*.py"))}


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """A project with samples and no accumlint settings but its own."""
    (tmp_path / "pyproject.toml").write_text("[tool.accumlint]\n")
    src = tmp_path / "src"
    src.mkdir()
    for name in ("trainer_class_clip", "tagger_next", "right_deferred"):
        shutil.copy(SAMPLES / f"{name}.py", src)
    return tmp_path


@pytest.mark.parametrize(
    ("jobs", "arguments"),
    [("1", ()), ("2", ("--require", "proved")), ("2", ("--strategy", "precount", "--unsafe-fixes"))],
    ids=["one process", "proved", "precount"],
)
def test_the_same_as_fix(work: Path, arguments: tuple[str, ...], jobs: str) -> None:
    other = work / "other"
    shutil.copytree(work / "src", other)
    done = codemod(*COMMAND, "-j", jobs, *arguments, "src", folder=work)
    assert done.returncode == 0, done.stderr
    check("--fix", *arguments, "other", folder=work)
    assert contents(work / "src") == contents(other)
    assert contents(other)["right_deferred.py"] == (SAMPLES / "right_deferred.py").read_bytes()


def test_what_is_left_is_warned_of(work: Path) -> None:
    done = codemod(*COMMAND, "-j", "1", "src/trainer_class_clip.py", folder=work)
    left = check("--output-format", "concise", "src/trainer_class_clip.py", folder=work).stdout
    assert ("ACC201" in done.stderr) == ("ACC201" in left)


def test_the_configuration_holds(work: Path) -> None:
    (work / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    (work / "src" / "a.py").write_bytes(b"x = 1  # noqa: ACC101\r\ny = 2\r\n")
    before = contents(work / "src")
    done = codemod(*COMMAND, "-j", "1", "src/a.py", folder=work)
    assert done.returncode == 0, done.stderr
    assert contents(work / "src") == {**before, "a.py": b"x = 1\r\ny = 2\r\n"}


def test_a_preview(work: Path) -> None:
    (work / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    path = work / "src" / "a.py"
    path.write_text("x = 1  # noqa: ACC101\n")
    done = codemod(*COMMAND, "-u", "3", "src/a.py", folder=work)
    assert "-x = 1  # noqa: ACC101\n+x = 1\n" in done.stdout
    assert path.read_text() == "x = 1  # noqa: ACC101\n"


def test_the_diff_is_that_of_check(work: Path) -> None:
    done = codemod(*COMMAND, "-u", "3", "--require", "proved", "src/tagger_next.py", folder=work)
    diff = check("--diff", "--require", "proved", "src/tagger_next.py", folder=work).stdout
    assert diff.count("\n+") > 5
    assert done.stdout.splitlines()[2:] == diff.splitlines()[2:]  # without the names of the files
    assert (work / "src" / "tagger_next.py").read_bytes() == (SAMPLES / "tagger_next.py").read_bytes()


def test_stdin(work: Path) -> None:
    text = (SAMPLES / "tagger_next.py").read_text()
    done = codemod(*COMMAND, "--require", "proved", "-", folder=work, stdin=text)
    check("--fix", "--require", "proved", "src/tagger_next.py", folder=work)
    assert done.stdout == (work / "src" / "tagger_next.py").read_text() + "\n"  # libcst prints it


def test_why_x_is_needed(work: Path) -> None:
    """libcst looks for `libcst.codemod.commands.accumlint.codemod`; should it find the full name, say so."""
    done = codemod(COMMAND[1], "src", folder=work)
    assert done.returncode == 1
    assert "Could not find accumlint.codemod in any configured modules" in done.stderr


def test_a_yaml_file_names_the_module(work: Path) -> None:
    (work / ".libcst.codemod.yaml").write_text("modules: [accumlint]\n")
    (work / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    path = work / "src" / "a.py"
    path.write_text("x = 1  # noqa: ACC101\n")
    assert codemod("codemod.WeightedAccumulation", "--no-format", "src/a.py", folder=work).returncode == 0
    assert path.read_text() == "x = 1\n"


def test_a_broken_configuration_is_said(work: Path) -> None:
    (work / "pyproject.toml").write_text('[tool.accumlint]\nslect = ["ACC1"]\n')
    before = contents(work / "src")
    done = codemod(*COMMAND, "-j", "1", "src", folder=work)
    assert done.returncode != 0
    assert 'unknown key "slect"' in done.stderr
    assert contents(work / "src") == before


def test_the_help_names_the_arguments(work: Path) -> None:
    shown = codemod(*COMMAND, "--help", folder=work).stdout
    assert all(flag in shown for flag in ("--strategy", "--require", "--unsafe-fixes"))
