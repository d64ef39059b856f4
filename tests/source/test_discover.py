"""Which files are checked."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from accumlint.source import discover as module
from accumlint.source.discover import STDIN, PathProblem, Selection, discover

posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


def make(root: Path, *names: str) -> None:
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x = 1\n")


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    return tmp_path


def names(*paths: str, **settings: object) -> list[str]:
    found = discover(paths, Selection(**settings))  # type: ignore[arg-type]
    assert not [item for item in found if isinstance(item, PathProblem)]
    return [item.as_posix() for item in found if isinstance(item, Path)]


def problems(*paths: str) -> dict[str, str]:
    return {item.path.as_posix(): item.message for item in discover(paths) if isinstance(item, PathProblem)}


def test_python_files_of_a_folder_sorted_and_once(tree: Path) -> None:
    make(tree, "b.py", "a/c.pyi", "a/N.IPYNB", "a/readme.txt", "c.pyc", "a.py")
    assert names(".") == ["a/N.IPYNB", "a/c.pyi", "a.py", "b.py"]
    assert names("b.py", ".", "a", "a/c.pyi", str(tree / "b.py")) == ["a/N.IPYNB", "a/c.pyi", "a.py", "b.py"]
    assert names("a") == ["a/N.IPYNB", "a/c.pyi"]


def test_scripts_are_told_by_their_first_line(tree: Path) -> None:
    scripts = {
        "train": b"#!/usr/bin/env python3\n",
        "eval": b"#! /usr/bin/python3.11 -u\r\n",
        "shell": b"#!/bin/sh\n# python\n",
        "binary": b"\0\xff#!python",
        "empty": b"",
        "pythonic": b"#!/opt/pythonic/bin/ruby\n",
    }
    for name, content in scripts.items():
        (tree / name).write_bytes(content)
    assert names(".") == ["eval", "train"]


def test_standard_input_is_handed_on(tree: Path) -> None:
    make(tree, "a.py")
    assert discover(["-", "a.py", "-"]) == [STDIN, Path("a.py")]


def test_default_excludes_and_ones_own(tree: Path) -> None:
    make(tree, "a.py", "venv/b.py", "src/build/c.py", "node_modules/d.py", "x/site-packages/e.py", "src/gen/f.py")
    make(tree, "src/f_pb2.py", "gen/g.py")
    assert names(".") == ["a.py", "gen/g.py", "src/f_pb2.py", "src/gen/f.py"]
    assert names(".", extend_exclude=["*_pb2.py", "src/gen"]) == ["a.py", "gen/g.py"]
    assert names(".", extend_exclude=["./gen/", "src/*"]) == ["a.py"]
    assert names(".", exclude=["src", "x"]) == ["a.py", "gen/g.py", "node_modules/d.py", "venv/b.py"]


def test_what_the_user_names_is_taken_unless_exclusion_is_forced(tree: Path) -> None:
    make(tree, "venv/a.py", "notes.txt", "ignored/b.py", "deep/venv/sub/c.py")
    (tree / ".gitignore").write_text("ignored/\n")
    assert names("venv/a.py", "notes.txt", "ignored/b.py") == ["ignored/b.py", "notes.txt", "venv/a.py"]
    assert names("venv", "ignored", "deep/venv") == ["deep/venv/sub/c.py", "ignored/b.py", "venv/a.py"]
    forced = {"force_exclude": True}
    assert names("venv/a.py", "notes.txt", "ignored/b.py", "deep/venv/sub/c.py", **forced) == ["notes.txt"]
    assert names("venv", "ignored", "deep/venv/sub", ".", **forced) == []


def test_gitignore_files_are_respected_the_nearest_first(tree: Path) -> None:
    make(
        tree, "a.py", "gen/b.py", "sub/gen/c.py", "sub/keep.py", "sub/d.py", "sub/deep/e.py", "sub/deep/f.py", "top.py"
    )
    (tree / ".gitignore").write_text("/gen/\n*e.py\n/top.py\n")
    (tree / "sub" / ".gitignore").write_text("!keep.py\nd.py\n/deep/*\n!/deep/f.py\n")
    assert names(".") == ["a.py", "sub/deep/f.py", "sub/gen/c.py", "sub/keep.py"]
    assert names("sub") == ["sub/deep/f.py", "sub/gen/c.py", "sub/keep.py"]
    assert names("sub/deep") == ["sub/deep/f.py"]
    assert "top.py" in names(".", respect_gitignore=False)
    assert len(names(".", respect_gitignore=False)) == 8


def test_an_ignored_folder_is_not_searched_for_what_is_kept(tree: Path) -> None:
    make(tree, "out/a.py")
    (tree / ".gitignore").write_text("out/\n!out/a.py\n")
    assert names(".") == []


def test_the_private_list_of_the_repository_counts(tree: Path) -> None:
    make(tree, "a.py", "b.py", "sub/c.py")
    (tree / ".git" / "info").mkdir()
    (tree / ".git" / "info" / "exclude").write_text("b.py\nc.py\n")
    assert names(".") == ["a.py"]
    assert names("sub") == []


def test_a_gitignore_outside_the_repository_says_nothing(tree: Path) -> None:
    make(tree, "inner/a.py")
    (tree / "inner" / ".git").mkdir()
    (tree / ".gitignore").write_text("a.py\n")
    assert names("inner") == ["inner/a.py"]


@posix
def test_links_are_followed_to_files_and_not_to_folders(tree: Path) -> None:
    make(tree, "src/a.py", "z.py")
    (tree / "src" / "loop").symlink_to("..")
    (tree / "alias.py").symlink_to("z.py")
    (tree / "folder").symlink_to("src")
    assert names(".") == ["src/a.py", "z.py"]
    assert names("alias.py") == ["alias.py"]
    assert names("folder") == ["folder/a.py"]


@posix
def test_broken_links_and_missing_paths_are_problems(tree: Path) -> None:
    make(tree, "a.py")
    (tree / "gone.py").symlink_to("nothing.py")
    (tree / "self.py").symlink_to("self.py")
    (tree / "no-suffix").symlink_to("nothing")
    (tree / ".#a.py").symlink_to("user@host.1234")
    found = problems(".", "missing.py", "nul\0.py")
    assert found == {
        "gone.py": "is a link to nothing",
        "self.py": found["self.py"],
        "missing.py": "no such file or directory",
        "nul\0.py": "is not a path",
    }
    assert found["self.py"].startswith("cannot be read: ")
    assert Path("a.py") in discover(["."])


@posix
def test_pipes_are_not_opened(tree: Path) -> None:
    os.mkfifo(tree / "pipe.py")
    os.mkfifo(tree / "pipe")
    assert names(".") == []


def test_folders_that_cannot_be_read_and_files_that_vanish_are_problems(
    tree: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make(tree, "a.py", "locked/b.py", "vanished.py")
    real_scandir, real_stat = os.scandir, os.stat

    def scandir(path: Path) -> object:
        if Path(path).name == "locked":
            raise PermissionError(13, "Permission denied")
        return real_scandir(path)

    def stat(path: Path, **options: object) -> object:
        if Path(path).name == "vanished.py":
            raise FileNotFoundError(2, "No such file or directory")
        return real_stat(path, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(module.os, "scandir", scandir)
    monkeypatch.setattr(module.os, "stat", stat)
    assert problems(".") == {"locked": "cannot be read: Permission denied", "vanished.py": "no such file or directory"}
    assert Path("a.py") in discover(["."])
