"""The hooks with the real pre-commit in a git repository: fail, repair, pass.

The hooks run the accumlint of this environment (`language: system`), so that the test needs no network; everything
else is what .pre-commit-hooks.yaml says.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pre_commit")
yaml = pytest.importorskip("yaml")

HOOKS = Path(__file__).parents[2] / ".pre-commit-hooks.yaml"
FAKE = Path(__file__).parent / "fake_engine.py"


def call(*command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    identity = {f"GIT_{who}_{what}": "x@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
    env = {**os.environ, **identity, "PRE_COMMIT_HOME": str(folder.parent / "cache")}
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def repository(folder: Path) -> Path:
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    hooks = folder.parent / "hooks"
    hooks.mkdir()
    described = yaml.safe_load(HOOKS.read_text())
    for hook in described:
        hook["language"] = "system"
        hook["entry"] = hook["entry"].replace("accumlint", f"{sys.executable} {FAKE}", 1)
    (hooks / ".pre-commit-hooks.yaml").write_text(yaml.safe_dump(described))
    call("git", "init", "-q", folder=hooks)
    call("git", "add", ".", folder=hooks)
    call("git", "commit", "-q", "-m", "hooks", folder=hooks)
    revision = call("git", "rev-parse", "HEAD", folder=hooks).stdout.strip()
    chosen = [{"id": "accumlint-fix"}, {"id": "accumlint"}]
    config = {"repos": [{"repo": str(hooks), "rev": revision, "hooks": chosen}]}
    (folder / ".pre-commit-config.yaml").write_text(yaml.safe_dump(config))
    call("git", "init", "-q", folder=folder)
    return folder


def test_fail_repair_pass(repository: Path) -> None:
    (repository / "a.py").write_text("acc201_safe(1)\n")
    (repository / "not_ours.txt").write_text("acc201_safe(1)\n")
    call("git", "add", ".", folder=repository)
    check = call(sys.executable, "-m", "pre_commit", "run", "accumlint", folder=repository)
    assert check.returncode == 1, check.stderr
    assert "a.py:1:1: ACC201" in check.stdout
    fix = call(sys.executable, "-m", "pre_commit", "run", "accumlint-fix", folder=repository)
    assert fix.returncode == 1
    assert "Repaired 1 error in 1 file" in fix.stdout
    assert (repository / "a.py").read_text() == "good(1)\n"
    assert (repository / "not_ours.txt").read_text() == "acc201_safe(1)\n"
    call("git", "add", ".", folder=repository)
    assert call(sys.executable, "-m", "pre_commit", "run", folder=repository).returncode == 0


def test_excluded_files_are_not_checked_although_they_are_named(repository: Path) -> None:
    (repository / "a.py").write_text("acc201_safe(1)\n")
    (repository / "pyproject.toml").write_text('[tool.accumlint]\nextend-exclude = ["a.py"]\n')
    call("git", "add", ".", folder=repository)
    assert call(sys.executable, "-m", "pre_commit", "run", "accumlint", folder=repository).returncode == 0


def test_the_hooks_file() -> None:
    hooks = {hook["id"]: hook for hook in yaml.safe_load(HOOKS.read_text())}
    assert set(hooks) == {"accumlint", "accumlint-fix"}
    assert all(hook["types_or"] == ["python", "pyi", "jupyter"] for hook in hooks.values())
    done = call(sys.executable, "-m", "pre_commit", "validate-manifest", str(HOOKS), folder=HOOKS.parent)
    assert done.returncode == 0, done.stdout
