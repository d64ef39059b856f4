"""What a check looked at beyond the file itself, so that its result can be kept as long as none of it changed.

A place is a folder, by the names in it that an import or a requirement could mean, or a file, by its bytes. Its state
is taken when it is read and not afterwards: what was seen is what counts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")

ABSENT = ""
"""The state of a file that cannot be read."""


@dataclass(slots=True)
class Footprint:
    """The root that was found for the checked file, and the states of folders and files by their paths."""

    root: str | None = None
    folders: dict[str, str] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)


_CURRENT: ContextVar[Footprint | None] = ContextVar("footprint", default=None)


@contextmanager
def recorded() -> Iterator[Footprint]:
    """Whatever is looked at in a project inside of the block is written down in the footprint."""
    footprint = Footprint()
    token = _CURRENT.set(footprint)
    try:
        yield footprint
    finally:
        _CURRENT.reset(token)


def current() -> Footprint | None:
    """Where to write down what is looked at, if somebody asked."""
    return _CURRENT.get()


def root_of(folder: Path) -> Path:
    """The nearest folder upwards that looks like a project, else the one that holds the top package of `folder`."""
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in _MARKS):
            return candidate
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


def digest(data: bytes) -> str:
    """32 hexadecimal digits."""
    return blake2b(data, digest_size=16).hexdigest()


def names_in(folder: str) -> frozenset[str]:
    """What an import could mean in a folder: `name.py` for a file, `name/` for a folder; and its requirement files.

    Nothing if it is no folder."""
    try:
        with os.scandir(folder) as entries:
            return frozenset(found for entry in entries if (found := _telling(entry)))
    except OSError:
        return frozenset()


def names_state(names: frozenset[str]) -> str:
    """The state of a folder that holds these names."""
    return digest("\n".join(sorted(names)).encode("utf-8", "surrogateescape"))


def is_requirements(name: str) -> bool:
    """`requirements.txt`, `dev-requirements.txt`, `requirements-gpu.txt`."""
    return name.endswith(".txt") and "requirements" in name


def _telling(entry: os.DirEntry[str]) -> str:
    """The bytes and caches that tools leave behind are no modules, and must not make results stale."""
    name = entry.name
    try:
        if name.endswith(".py") or is_requirements(name):
            return name if entry.is_file() else ""
        return f"{name}/" if name.isidentifier() and name != "__pycache__" and entry.is_dir() else ""
    except OSError:
        return ""
