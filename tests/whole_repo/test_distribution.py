"""What is shipped: the sdist holds the repository that its tests need, the wheel the package and its data only."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and the wheel that was built from it."""
    pytest.importorskip("build")
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return folder


def tracked(*folders: str) -> set[str]:
    done = subprocess.run(["git", "ls-files", *folders], cwd=ROOT, check=False, capture_output=True, text=True)
    if done.returncode:
        pytest.skip("not in a repository: this is the sdist itself")
    return {name for name in done.stdout.splitlines() if (ROOT / name).is_file()}


def test_the_sdist_holds_what_its_tests_need(built: Path) -> None:
    (file,) = built.glob("*.tar.gz")
    with tarfile.open(file) as archive:
        held = {name.partition("/")[2] for name in archive.getnames()}
    wanted = tracked("accumlint", "tests", "docs", "samples", "scripts", "benchmarks", "pyproject.toml", "README.md")
    assert len(wanted) > 500
    assert wanted - held == set()
    assert not {name for name in held if "__pycache__" in name or name.startswith((".accumlint_cache", ".git/"))}


def test_the_wheel_holds_the_package_and_its_data(built: Path) -> None:
    (file,) = built.glob("*.whl")
    with zipfile.ZipFile(file) as archive:
        held = set(archive.namelist())
    package = tracked("accumlint")
    assert package - held == set()
    others = {name for name in held - package if ".dist-info/" not in name}
    assert others == set()
    assert "accumlint/py.typed" in held
    assert any(name.endswith("entry_points.txt") for name in held)
