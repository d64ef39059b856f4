"""The newest version of a library that a project allows."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from accumlint.reading.requirements import NEWEST, newest, newest_allowed, satisfies

ANY = math.inf


@pytest.mark.parametrize(
    ("clauses", "version"),
    [
        ("", NEWEST),
        (">=4.30", NEWEST),
        ("!=4.40.1", NEWEST),
        ("==4.40.0", (4, 40, 0)),
        ("==4.40.*", (4, 40, ANY)),
        (">=4.30,<4.46", (4, 45, ANY)),
        ("<5.0", (4, ANY)),
        ("<=4.45.2", (4, 45, 2)),
        ("~=4.40.0", (4, 40, ANY)),
        ("~=4.40", (4, ANY)),
        ("^4.40", (4, ANY)),
        ("~4.40.1", (4, 40, ANY)),
    ],
)
def test_the_newest_version_of_a_specifier(clauses: str, version: tuple[float, ...]) -> None:
    assert newest(clauses) == version


@pytest.mark.parametrize(
    ("name", "text", "is_old"),
    [
        ("requirements.txt", "torch>=2\ntransformers==4.40.0\n", True),
        ("requirements.txt", "transformers[torch] ~= 4.41.0 ; python_version > '3.8'\n", True),
        ("requirements.txt", "transformers\n", False),
        ("requirements.txt", "# transformers==4.40.0 was used\ntransformers>=4.50\n", False),
        ("requirements.txt", "sentence-transformers==2.2.0\nadapter-transformers==3.0\n", False),
        ("requirements.txt", "git+https://github.com/huggingface/transformers@v4.40.0\n", False),
        ("requirements-train.txt", "transformers<4.46\n", True),
        ("requirements/train.txt", "transformers<4.46\n", False),
        ("pyproject.toml", '[project]\ndependencies = ["torch", "transformers>=4.38,<4.46"]\n', True),
        ("pyproject.toml", '[tool.poetry.dependencies]\ntransformers = "4.40.*"\n', False),
        (
            "pyproject.toml",
            '[tool.poetry.dependencies]\ntransformers = {version = "==4.40.0", extras = ["torch"]}\n',
            True,
        ),
        ("setup.py", 'setup(install_requires=["transformers==4.37.2"])\n', True),
        ("uv.lock", '[[package]]\nname = "transformers"\nversion = "4.44.2"\n', True),
    ],
)
def test_the_files_of_a_project(name: str, text: str, is_old: bool, tmp_path: Path) -> None:
    """What a comment or another library says counts for nothing; a bare version of poetry is left alone."""
    file = tmp_path / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(text)
    assert satisfies(newest_allowed(tmp_path, "transformers"), "<4.46") == is_old


def test_a_lock_file_decides(tmp_path: Path) -> None:
    (tmp_path / "requirements.txt").write_text("transformers<5\n")
    (tmp_path / "poetry.lock").write_text('[[package]]\nname = "transformers"\nversion = "4.57.1"\n')
    assert newest_allowed(tmp_path, "transformers") == (4, 57, 1)


def test_no_files_allow_every_version(tmp_path: Path) -> None:
    assert newest_allowed(tmp_path, "transformers") == NEWEST


def test_a_specifier_of_a_row_is_plain() -> None:
    assert satisfies((4, 46), ">=4.46,<5")
    assert not satisfies((5,), ">=4.46,<5")
    with pytest.raises(ValueError, match="not a specifier"):
        satisfies((5,), "~=4.46")
