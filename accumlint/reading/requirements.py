"""Which versions of a library a project allows, read off its requirement files: pins, upper bounds and lock files.

Only the newest allowed version is asked for, since a table's rows say from which version on a behaviour holds. A file
that is not there or says nothing allows every version. Nothing is evaluated or resolved.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol, TypeAlias

from accumlint.reading.footprint import is_requirements, names_in

Version: TypeAlias = tuple[float, ...]
"""The numbers of a release; infinity stands for any later one: `(4, 45, inf)` is the newest 4.45."""

NEWEST: Version = (math.inf,)
LOCKS = ("uv.lock", "poetry.lock", "pdm.lock")
FILES = ("pyproject.toml", "setup.cfg", "setup.py", "requirements.txt", "environment.yml")
FOLDERS = ("", "requirements")
LARGEST = 5_000_000
_CLAUSE = re.compile(r"(===?|~=|<=|<|\^|~)\s*v?(\d+(?:\.\d+)*)(\.\*)?")


class Folder(Protocol):
    """How the files of a project are read: a project remembers what was looked at."""

    def text(self, path: Path) -> str:
        """The text of a file, "" for one that is large or cannot be read."""
        ...

    def names(self, folder: Path) -> frozenset[str]:
        """The names of the requirement files in a folder, among others."""
        ...


class _Disk:
    """The files as they are now."""

    def text(self, path: Path) -> str:
        try:
            return path.read_text(encoding="utf-8", errors="replace") if path.stat().st_size < LARGEST else ""
        except OSError:
            return ""

    def names(self, folder: Path) -> frozenset[str]:
        return names_in(str(folder))


def newest_allowed(root: Path, library: str, folder: Folder | None = None) -> Version:
    """The newest version of a library that the project in a folder allows: a lock file decides, else the bounds."""
    folder = folder or _Disk()
    locked = [version for name in LOCKS for version in _locked(folder.text(root / name), library)]
    if locked:
        return max(locked)
    return min((newest(clauses) for clauses in _mentions(root, library, folder)), default=NEWEST)


def satisfies(version: Version, specifier: str) -> bool:
    """Whether a version is in a specifier of `>=` and `<` clauses, as the rows of the tables have them."""
    for clause in filter(None, specifier.split(",")):
        match = re.fullmatch(r"\s*(>=|<)\s*(\d+(?:\.\d+)*)\s*", clause)
        if match is None:
            raise ValueError(f"not a specifier of a row: {specifier!r}")
        if (version >= release(match[2])) != (match[1] == ">="):
            return False
    return True


def release(text: str) -> Version:
    return tuple(int(part) for part in text.split("."))


def newest(clauses: str) -> Version:
    """The newest version that `==4.40.*`, `>=4.30,<4.46`, `~=4.40.0` or poetry's `^4.40` and `~4.40` allow."""
    found = [NEWEST]
    for operator, text, star in _CLAUSE.findall(clauses):
        version = release(text)
        if operator == "<":
            found.append(_before(version))
        elif operator in ("==", "===", "<="):
            found.append((*version, math.inf) if star else version)
        elif operator == "~=":
            found.append((*version[:-1], math.inf))
        elif operator == "~":
            found.append((*version[:2], math.inf))
        else:
            found.append((version[0], math.inf))
    return min(found)


def _before(version: Version) -> Version:
    """The newest release line before a version: before 4.46 and before 4.46.0 is any 4.45."""
    parts = list(version)
    while len(parts) > 1 and parts[-1] == 0:
        parts.pop()
    return (*parts[:-1], parts[-1] - 1, math.inf)


def _mentions(root: Path, library: str, folder: Folder) -> Iterator[str]:
    """The version clauses beside each mention of a library, as far as the requirement goes."""
    name = re.escape(library).replace("_", "[-_.]").replace(r"\-", "[-_.]")
    pattern = re.compile(rf"(?<![\w./-]){name}(?:\[[^\]\n]*\])?(?P<rest>[^\n;]*)", re.IGNORECASE)
    for path in _files(root, folder):
        for match in pattern.finditer(re.sub(r"#.*", "", folder.text(path))):
            rest = match["rest"].lstrip()
            if re.match(r"=\s*[\"'{]", rest):  # poetry: name = "^4.40", name = {version = "4.40.0", ...}
                yield rest.partition("=")[2].strip().partition("version")[2] or rest.partition("=")[2]
            elif re.match(r"\(?\s*[=~<>!]", rest):
                yield re.split(r"[\"']", rest)[0]


def _files(root: Path, folder: Folder) -> Iterator[Path]:
    for name in FILES:
        yield root / name
    for place in FOLDERS:
        names = folder.names(root / place)
        yield from (root / place / name for name in sorted(names) if is_requirements(name) and name not in FILES)


def _locked(text: str, library: str) -> Iterator[Version]:
    pattern = rf'name = "{re.escape(library)}"\s+version = "(\d+(?:\.\d+)*)'
    return (release(match[1]) for match in re.finditer(pattern, text))
