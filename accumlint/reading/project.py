"""Following names into other files of the same project: a dotted name in, a lowered module out.

Only files below the project's root are ever opened, links that lead out of it are not followed, and nothing is
imported or run. What is read is bounded: a module that is large, or one of too many, is left unknown.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path

from accumlint.reading.program import Module, Span
from accumlint.reading.read import ReadError, read_module

MODULES = 300
LARGEST = 400_000
FOREIGN = 10_000_000
"""Node ids of followed modules start here, each module a `FOREIGN` further: ids of the checked file stay below."""

_MARKS = ("pyproject.toml", "setup.py", "setup.cfg", ".git")
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import|import[ \t]+([.\w]+))", re.MULTILINE)
IMPORT_DEPTH = 2
_EVENTS = (b"backward", b"zero_grad", b"clip_grad", b"unscale", b"no_sync", b"scale_grads", b"multiply_grads")
_WORTH = (b"loss", b"backward", b"optim", b"DataLoader", b"Dataset")


def find_root(filename: str) -> Path | None:
    """The nearest folder upwards that looks like a project, else the one that holds the file's top package.

    None for a file that is not there."""
    path = Path(filename)
    if not path.is_file():
        return None
    folder = path.resolve().parent
    for candidate in (folder, *folder.parents):
        if any((candidate / mark).exists() for mark in _MARKS):
            return candidate
    while (folder / "__init__.py").is_file() and folder.parent != folder:
        folder = folder.parent
    return folder


@lru_cache(maxsize=2)
def open_project(root: Path) -> Project:
    """One project a root and process: its files are read once, however many of them import them."""
    return Project(root)


def project_of(filename: str) -> Project | None:
    """The project that a file belongs to, for following names into its other files."""
    root = find_root(filename)
    return None if root is None else open_project(root)


class Unplaced:
    """The syntax of a followed module: findings are never reported there, so its concrete tree is not kept."""

    def span(self, node: int) -> Span:
        raise LookupError(f"node {node} is in a file that was only followed")

    def text(self, node: int) -> str:
        return ""


@dataclass(eq=False)
class Project:
    """The modules of one project that its files may follow; each is read once a run, and only its IR is kept."""

    root: Path
    _modules: dict[Path, Module | None] = field(default_factory=dict)
    _resolved: dict[tuple[str, str], tuple[Module, str] | None] = field(default_factory=dict)
    _training: dict[Path, bool] = field(default_factory=dict)
    _count: int = 0

    def imports_training(self, filename: str, data: bytes) -> bool:
        """Whether a file (its bytes) imports a module of the project that holds a backward."""
        return any(b"backward" in _bytes_of(path) for path in self._imported_by(Path(filename).resolve(), data))

    def may_train(self, target: str, importer: str) -> bool:
        """Whether the module that a dotted target is in touches gradients or optimizers, or imports one that does.

        By its bytes: a module for which this is False need not be read to know what a call can reach."""
        placed = self._place(target, importer)
        return placed is not None and self._touches_training(placed[0], IMPORT_DEPTH)

    def _touches_training(self, path: Path, depth: int) -> bool:
        known = self._training.get(path)
        if known is None:
            self._training[path] = False  # what a module that imports itself adds
            data = _bytes_of(path)
            known = any(word in data for word in _EVENTS) or (b"optim" in data and b".step(" in data)
            if not known and depth:
                known = any(self._touches_training(other, depth - 1) for other in self._imported_by(path, data))
            self._training[path] = known
        return known

    def _imported_by(self, path: Path, data: bytes) -> Iterator[Path]:
        """The files of the project's modules that the text of a file imports, without parsing it."""
        for match in _IMPORT.finditer(data):
            found = self.locate((match[1] or match[2]).decode(), path)
            if found is not None and found != path:
                yield found

    def resolve(self, target: str, importer: str) -> tuple[Module, str] | None:
        """The module that a dotted target is in, and the name in it; None where it is not the project's."""
        key = (target, importer)
        if key not in self._resolved:
            self._resolved[key] = self._resolve(target, importer)
        return self._resolved[key]

    def _resolve(self, target: str, importer: str) -> tuple[Module, str] | None:
        placed = self._place(target, importer)
        module = None if placed is None else self.module(placed[0])
        return None if module is None or placed is None else (module, placed[1])

    def _place(self, target: str, importer: str) -> tuple[Path, str] | None:
        """The file that a dotted target is in, and the rest of the name, which is a name in it."""
        base = Path(importer).resolve()
        if not target.startswith(".") and not self._is_own(target.partition(".")[0], base):
            return None
        parts = target.split(".")
        dots = len(target) - len(target.lstrip("."))
        rest = [part for part in parts if part]
        for length in range(len(rest), 0, -1):
            path = self.locate("." * dots + ".".join(rest[:length]), base)
            if path is not None and path != base:
                return path, ".".join(rest[length:])
        return None

    def _is_own(self, top: str, importer: Path) -> bool:
        """Whether the first part of a dotted name is there at all: most imports are a library's."""
        folders = (importer.parent, self.root, self.root / "src")
        return any((folder / top).is_dir() or (folder / f"{top}.py").is_file() for folder in folders)

    def locate(self, dotted: str, importer: Path) -> Path | None:
        """The file of a module by its dotted name, relative (leading dots) or seen from the root or the importer."""
        dots = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted.split(".") if part]
        if dots:
            folder = importer.parent
            for _ in range(dots - 1):
                folder = folder.parent
            folders = [folder]
        else:
            folders = [importer.parent, self.root, self.root / "src"]
        for folder in folders:
            found = self._file_of(folder.joinpath(*parts)) if parts else None
            if found is not None:
                return found
        return None

    def _file_of(self, path: Path) -> Path | None:
        for candidate in (path.with_name(f"{path.name}.py"), path / "__init__.py"):
            try:
                resolved = candidate.resolve()
                if resolved.is_file() and resolved.is_relative_to(self.root):
                    return resolved
            except (OSError, ValueError):
                return None
        return None

    def module(self, path: Path) -> Module | None:
        """A module of the project, read once; None for one that is large, unreadable, or says nothing of training."""
        if path not in self._modules:
            self._modules[path] = self._read(path)
        return self._modules[path]

    def _read(self, path: Path) -> Module | None:
        data = _bytes_of(path)
        if self._count >= MODULES or not data or len(data) > LARGEST or not any(word in data for word in _WORTH):
            return None
        self._count += 1
        try:
            text = data.decode("utf-8-sig")
            module = read_module(text, str(path), path.stem, first_id=FOREIGN * self._count)
            return replace(module, syntax=Unplaced(), lines=())
        except (UnicodeDecodeError, ReadError):
            return None


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""
