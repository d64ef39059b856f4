"""Which files to check: folders are searched, named files taken, what git ignores and what is not ours left out."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import translate
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

SUFFIXES = frozenset({".py", ".pyi", ".ipynb"})
STDIN = Path("-")

DEFAULT_EXCLUDE = (
    ".bzr", ".direnv", ".eggs", ".git", ".git-rewrite", ".hg", ".ipynb_checkpoints", ".mypy_cache", ".nox", ".pants.d",
    ".pyenv", ".pytest_cache", ".pytype", ".ruff_cache", ".accumlint_cache", ".svn", ".tox", ".venv", ".vscode",
    "__pycache__", "__pypackages__", "_build", "buck-out", "build", "dist", "node_modules", "site-packages", "venv",
)  # fmt: skip

_SHEBANG = re.compile(rb"#![^\r\n]*\b(?:python|pypy)[0-9.]*\b")
_LONGEST_SHEBANG = 256


@dataclass(frozen=True, slots=True)
class PathProblem:
    """A path that could not be looked at. `message` is one line."""

    path: Path
    message: str


@dataclass(frozen=True, slots=True)
class Selection:
    """What is searched for.

    `exclude` and `extend_exclude` are globs: one without a slash matches a name anywhere, any other the path relative
    to `root`; what lies in a matched folder is excluded with it. Files and folders that the user names are taken in
    spite of excludes and .gitignore, except with `force_exclude`.
    """

    exclude: Sequence[str] = DEFAULT_EXCLUDE
    extend_exclude: Sequence[str] = ()
    respect_gitignore: bool = True
    force_exclude: bool = False
    root: Path = field(default_factory=Path.cwd)


def discover(paths: Iterable[str | Path], selection: Selection | None = None) -> list[Path | PathProblem]:
    """The files to check and the problems met, sorted by path; a file with several names comes once.

    "-" stands for standard input and comes back as `Path("-")`. Raises nothing for what it finds on disk.
    """
    selection = selection or Selection()
    found: dict[str, Path] = {}
    problems: dict[Path, PathProblem] = {}
    specs: dict[str, GitIgnoreSpec | None] = {}
    folders: dict[str, str] = {}
    for path in map(Path, paths):
        for item in _search(path, selection, specs):
            if isinstance(item, PathProblem):
                problems.setdefault(item.path, item)
            else:
                _remember(found, item, folders)
    return sorted([*found.values(), *problems.values()], key=_order)


def _order(item: Path | PathProblem) -> tuple[str, ...]:
    return (item if isinstance(item, Path) else item.path).parts


def _remember(found: dict[str, Path], path: Path, folders: dict[str, str]) -> None:
    """Keep one name for a file: rather not a link, then the shortest."""
    real = _real(path, folders) if path != STDIN else "-"
    other = found.get(real)
    if other is None or _rank(path, real) < _rank(other, real):
        found[real] = path


def _real(path: Path, folders: dict[str, str]) -> str:
    """The path without links; `folders` remembers those of folders, which are few."""
    if path.name in ("", "..") or os.path.islink(path):
        return os.path.realpath(path)
    folder = os.path.dirname(path)
    if folder not in folders:
        folders[folder] = os.path.realpath(folder)
    return os.path.join(folders[folder], path.name)


def _rank(path: Path, real: str) -> tuple[bool, int, tuple[str, ...]]:
    return os.path.abspath(path) != real, len(path.parts), path.parts


def _search(path: Path, selection: Selection, specs: dict[str, GitIgnoreSpec | None]) -> Iterator[Path | PathProblem]:
    """One argument: standard input, a file as it is, or a folder to be walked."""
    if path == STDIN:
        yield path
        return
    try:
        is_folder = stat.S_ISDIR(os.stat(path).st_mode)
        if not is_folder and not selection.force_exclude:
            yield path
            return
        ignored = Ignored(path, selection, specs)
        if selection.force_exclude and ignored.with_parents(path, is_folder):
            return
    except (OSError, ValueError) as error:
        yield PathProblem(path, _describe(path, error))
        return
    if is_folder:
        yield from _walk(path, ignored)
    else:
        yield path


def _walk(top: Path, ignored: Ignored) -> Iterator[Path | PathProblem]:
    """Walk a folder. Links to folders are not entered, as git and ruff do not; so no loop of links can hold us."""
    folders = [top]
    while folders:
        folder = folders.pop()
        try:
            ignored.enter(folder)
            with os.scandir(folder) as entries:
                names = list(entries)
        except OSError as error:
            yield PathProblem(folder, _describe(folder, error))
            continue
        for entry in names:
            is_folder = _is_folder(entry)
            # The name first: it is the cheapest test, and most files of a large tree are not ours.
            if not is_folder and not _may_be_python(entry.name):
                continue
            path = folder / entry.name
            if ignored.matches(path, is_folder):
                continue
            if is_folder:
                folders.append(path)
            else:
                yield from _take(path)


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir(follow_symlinks=False)
    except OSError:
        return False


def _may_be_python(name: str) -> bool:
    """By its name: one of our suffixes, or none. Emacs marks an edited file by a broken link, `.#train.py`."""
    suffix = os.path.splitext(name)[1].lower()
    return (not suffix or suffix in SUFFIXES) and not name.startswith(".#")


def _take(path: Path) -> Iterator[Path | PathProblem]:
    """A file met on the way that may be Python by its name, if it is a regular one and, without suffix, a script."""
    try:
        if not stat.S_ISREG(os.stat(path).st_mode):
            return
        if path.suffix or _has_shebang(path):
            yield path
    except OSError as error:
        if path.suffix:
            yield PathProblem(path, _describe(path, error))


def _has_shebang(path: Path) -> bool:
    with open(path, "rb") as file:
        return _SHEBANG.match(file.read(_LONGEST_SHEBANG)) is not None


def _describe(path: Path, error: Exception) -> str:
    if isinstance(error, FileNotFoundError) and os.path.islink(path):
        return "is a link to nothing"
    if isinstance(error, FileNotFoundError):
        return "no such file or directory"
    if isinstance(error, OSError):
        return f"cannot be read: {error.strerror or error}"
    return "is not a path"


class Ignored:
    """What to leave out while one argument is walked: excludes, and the .gitignore files from its repository down."""

    def __init__(self, top: Path, selection: Selection, specs: dict[str, GitIgnoreSpec | None]) -> None:
        """`specs` remembers what was read of each folder, from one argument to the next. Raises OSError."""
        self._names, self._globs = _compile([*selection.exclude, *selection.extend_exclude])
        self._root = os.path.abspath(selection.root)
        self._specs = specs
        self._respect = selection.respect_gitignore
        absolute = os.path.abspath(top)
        parent = os.path.dirname(absolute)
        self._repository = self._last = _find_repository(absolute if os.path.isdir(absolute) else parent)
        if self._respect:
            for folder in _folders_between(self._repository, parent):
                self._load(folder)
            # A folder that git ignores but the user names is searched; then rules from above it say nothing.
            if not selection.force_exclude and self.with_parents(top, os.path.isdir(top), excludes=False):
                self._last = absolute

    def enter(self, folder: Path) -> None:
        """Read the folder's own .gitignore. Raises OSError if it is there and cannot be read."""
        if self._respect:
            self._load(os.path.abspath(folder))

    def matches(self, path: Path, is_folder: bool) -> bool:
        """Whether a path, of which no folder above is left out, is left out."""
        absolute = os.path.abspath(path)
        return self._is_excluded(absolute) or self._is_ignored(absolute, is_folder)

    def with_parents(self, path: Path, is_folder: bool, excludes: bool = True) -> bool:
        """Whether a path or a folder above it, inside the project or the repository, is left out."""
        absolute = os.path.abspath(path)
        for start in (self._root, self._repository):
            for folder in _folders_between(start, absolute):
                holds = is_folder or folder != absolute
                if folder == start:
                    continue
                if (excludes and self._is_excluded(folder)) or self._is_ignored(folder, holds):
                    return True
        return excludes and self._is_excluded(absolute)

    def _is_excluded(self, absolute: str) -> bool:
        if os.path.basename(absolute) in self._names:
            return True
        return self._globs is not None and (
            self._globs.match(os.path.basename(absolute)) is not None
            or self._globs.match("/" + _relative(absolute, self._root)) is not None
        )

    def _is_ignored(self, absolute: str, is_folder: bool) -> bool:
        """Ask the .gitignore files from the nearest upward: the first that has an opinion decides."""
        folder = os.path.dirname(absolute)
        while self._respect:
            spec = self._specs.get(folder)
            if spec is not None:
                answer = spec.check_file(_relative(absolute, folder) + "/" * is_folder).include
                if answer is not None:
                    return answer
            parent = os.path.dirname(folder)
            if folder in (parent, self._last):
                break
            folder = parent
        return False

    def _load(self, folder: str) -> None:
        if folder in self._specs:
            return
        lines: list[str] = []
        # The repository's private list comes first, so that .gitignore can overrule it.
        for name in (os.path.join(".git", "info", "exclude"), ".gitignore"):
            lines += _read_lines(os.path.join(folder, name))
        self._specs[folder] = _compile_gitignore(lines) if lines else None


def _compile(patterns: Iterable[str]) -> tuple[frozenset[str], re.Pattern[str] | None]:
    """Plain names apart, which are most and cheap; globs as one expression, paths among them led by a slash."""
    cleaned = {pattern.removeprefix("./").rstrip("/") for pattern in patterns} - {""}
    names = {pattern for pattern in cleaned if not re.search(r"[/*?\[]", pattern)}
    globs = [f"/{pattern.lstrip('/')}" if "/" in pattern else pattern for pattern in sorted(cleaned - names)]
    return frozenset(names), re.compile("|".join(map(translate, globs))) if globs else None


def _compile_gitignore(lines: Iterable[str]) -> GitIgnoreSpec:
    # Imported where it is needed: a commit hook names its files, and its start should not wait for this.
    from pathspec import GitIgnoreSpec

    return GitIgnoreSpec.from_lines(lines)


def _relative(absolute: str, folder: str) -> str:
    """The path from a folder with forward slashes; the path itself if it is not below the folder."""
    prefix = folder.rstrip(os.sep) + os.sep
    return absolute.removeprefix(prefix).replace(os.sep, "/")


def _read_lines(path: str) -> list[str]:
    if not os.path.isfile(path):
        return []
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read().splitlines()


def _find_repository(folder: str) -> str:
    """The nearest folder upward that holds .git; the folder itself if none does."""
    at = folder
    while not os.path.exists(os.path.join(at, ".git")):
        parent = os.path.dirname(at)
        if parent == at:
            return folder
        at = parent
    return at


def _folders_between(top: str, bottom: str) -> Iterator[str]:
    """The folders from `top` down to `bottom`, both included; none if `bottom` is not below `top`."""
    prefix = top.rstrip(os.sep) + os.sep
    if bottom != top and not bottom.startswith(prefix):
        return
    yield top
    at = top
    for part in bottom[len(prefix) :].split(os.sep) if bottom != top else ():
        at = os.path.join(at, part)
        yield at
