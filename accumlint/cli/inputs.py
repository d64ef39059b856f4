"""The files of a run, under the names that the user sees."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path

from accumlint.cli.errors import UsageError
from accumlint.cli.settings import Settings
from accumlint.findings import Problem
from accumlint.reading.footprint import digest
from accumlint.source.discover import DEFAULT_EXCLUDE, PathProblem, Selection, discover
from accumlint.source.notebook import read_bytes, read_path
from accumlint.source.text import SourceText

STDIN = "-"


@dataclass(frozen=True, slots=True)
class Input:
    """A file, or what came over stdin (then with its bytes). `shown` is relative to the working directory."""

    path: Path
    shown: str
    data: bytes | None = None

    @property
    def is_stdin(self) -> bool:
        return self.data is not None

    def read(self) -> SourceText:
        """Raises SourceError, or NotPythonError for a notebook of another language."""
        return read_path(self.path) if self.data is None else read_bytes(self.shown, self.data)

    def key(self, content: str) -> str:
        """What the cache finds a result by: the absolute path, the name that is shown, and the digest of the bytes."""
        names = f"{os.path.abspath(self.path)}\0{self.shown}\0{content}"
        return digest(names.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class Inputs:
    files: tuple[Input, ...]
    problems: tuple[Problem, ...] = ()


def find_inputs(settings: Settings) -> Inputs:
    """The files to check and the paths that could not be looked at. Reads stdin if that is the path."""
    if STDIN in settings.paths:
        if len(settings.paths) > 1:
            raise UsageError("stdin (-) cannot be checked together with other paths")
        name = settings.stdin_filename
        return Inputs((Input(Path(name), name, sys.stdin.buffer.read()),))
    selection = Selection(
        exclude=DEFAULT_EXCLUDE if settings.exclude is None else settings.exclude,
        extend_exclude=settings.extend_exclude,
        respect_gitignore=settings.respect_gitignore,
        force_exclude=settings.force_exclude,
        root=settings.root,
    )
    files: list[Input] = []
    problems: list[Problem] = []
    for item in discover(settings.paths, selection):
        if isinstance(item, PathProblem):
            problems.append(Problem(shown_name(item.path), item.message))
        else:
            files.append(Input(item, shown_name(item)))
    return Inputs(tuple(files), tuple(problems))


def shown_name(path: Path) -> str:
    """The path as it was given; an absolute one below the working directory is shortened."""
    text = str(path)
    if not path.is_absolute():
        return text
    here = os.getcwd().rstrip(os.sep) + os.sep
    return text[len(here) :] or "." if f"{text}{os.sep}".startswith(here) else text
