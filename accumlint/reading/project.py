"""Following names into other files of the same project: a dotted name in, a lowered module out.

Only files below the project's root are ever opened, links that lead out of it are not followed, and nothing is
imported or run. What is read is bounded: a module that is large, or one of too many, is left unknown.
"""

from __future__ import annotations

import ast
import os
import re
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from accumlint.reading.footprint import ABSENT, Footprint, current, digest, names_in, names_state, recorded, root_of
from accumlint.reading.prefilter import runs_backward
from accumlint.reading.program import Module, Span
from accumlint.reading.read import ReadError, read_module
from accumlint.reading.requirements import LARGEST as LARGEST_REQUIREMENTS
from accumlint.reading.requirements import Version, newest_allowed

T = TypeVar("T")
MODULES = 300
REEXPORTS = 4
"""How many packages may pass one name on."""
LARGEST = 400_000
FOREIGN = 10_000_000
"""Node ids of followed modules start here, each module a `FOREIGN` further: ids of the checked file stay below."""

_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+([.\w]+)[ \t]+import|import[ \t]+([.\w]+))", re.MULTILINE)
IMPORT_DEPTH = 2
_EVENTS = (b"backward", b"zero_grad", b"clip_grad", b"unscale", b"no_sync", b"scale_grads", b"multiply_grads")
_WORTH = (
    b"loss",
    b"Loss",
    b"entropy",
    b"criterion",
    b"nll",
    b"mse_",
    b"kl_div",
    b"backward",
    b"optim",
    b"Data",
    b"Trainer",
)


def find_root(filename: str) -> Path | None:
    """The root of the project that a file belongs to; None for a file that is not there."""
    path = Path(filename)
    return root_of(path.resolve().parent) if path.is_file() else None


@lru_cache(maxsize=2)
def open_project(root: Path) -> Project:
    """One project a root and process: its files are read once, however many of them import them."""
    return Project(root)


def project_of(filename: str) -> Project | None:
    """The project that a file belongs to, for following names into its other files."""
    root = find_root(filename)
    footprint = current()
    if footprint is not None:
        footprint.root = None if root is None else str(root)
    if root is None:
        return None
    project = open_project(root)
    project.begin()
    return project


class Unplaced:
    """The syntax of a followed module: findings are never reported there, so its concrete tree is not kept."""

    source = ""

    def span(self, node: int) -> Span:
        raise LookupError(f"node {node} is in a file that was only followed")

    def text(self, node: int) -> str:
        return ""


@dataclass(eq=False)
class Project:
    """The modules of one project that its files may follow; each is read once, and only its IR is kept.

    What a check may follow is bounded for each checked file, and not for the run: a result must not depend on which
    other files were checked before it. `begin` starts a file. Whatever is looked at goes into the footprint of the
    check, also where the answer is remembered.
    """

    root: Path
    _modules: dict[Path, Module | None] = field(default_factory=dict)
    _states: dict[Path, str] = field(default_factory=dict)
    _names: dict[str, tuple[frozenset[str], str]] = field(default_factory=dict)
    _resolved: dict[str, Path | None] = field(default_factory=dict)  # files by the names they were found under
    _importers: dict[str, Path] = field(default_factory=dict)
    _answers: dict[tuple[object, ...], tuple[object, Footprint]] = field(default_factory=dict)
    _followed: set[Path] = field(default_factory=set)
    _summaries: dict[tuple[str, object], object] = field(default_factory=dict)
    blocks: dict[int, Any] = field(default_factory=dict)  # what was found out about blocks of followed modules
    _count: int = 0

    def begin(self) -> None:
        """A new file is checked: its bounds are its own, and what others followed goes when it becomes too much."""
        self._followed = set()
        if len(self._modules) > MODULES:
            self._modules.clear()
            self._summaries.clear()
            self.blocks.clear()

    def summary(self, module: Module, make: Callable[[Module], T]) -> T:
        """What `make` says of a followed module, which must depend on the module alone: made once a run."""
        key = (module.filename, make)
        if key not in self._summaries:
            self._summaries[key] = make(module)
        return self._summaries[key]  # type: ignore[return-value]

    def imports_training(self, filename: str, data: bytes) -> bool:
        """Whether a file (its bytes) imports a module of the project that runs a backward."""
        return any(self._runs_backward(path) for path in self._imported_by(Path(filename).resolve(), data))

    def _runs_backward(self, path: Path) -> bool:
        return self._once(("backward", path), lambda: runs_backward(self._bytes_of(path)))

    def may_train(self, target: str, importer: str) -> bool:
        """Whether the module that a dotted target is in touches gradients or optimizers, or imports one that does.

        By its bytes: a module for which this is False need not be read to know what a call can reach."""
        placed = self._place(target, importer)
        return placed is not None and self._touches_training(placed[0], IMPORT_DEPTH)

    def _touches_training(self, path: Path, depth: int) -> bool:
        return self._once(("training", path, depth), lambda: self._looks_like_training(path, depth))

    def _looks_like_training(self, path: Path, depth: int) -> bool:
        data = self._bytes_of(path)
        if any(word in data for word in _EVENTS) or (b"optim" in data and b".step(" in data):
            return True
        return depth > 0 and any(self._touches_training(other, depth - 1) for other in self._imported_by(path, data))

    def _imported_by(self, path: Path, data: bytes) -> Iterator[Path]:
        """The files of the project's modules that the text of a file imports, without parsing it."""
        for match in _IMPORT.finditer(data):
            found = self.locate((match[1] or match[2]).decode(), path)
            if found is not None and found != path:
                yield found

    def resolve(self, target: str, importer: str) -> tuple[Module, str] | None:
        """The module that a dotted target is in, and the name in it; None where it is not the project's."""
        placed = self._place(target, importer)
        module = None if placed is None else self.module(placed[0])
        return None if module is None or placed is None else (module, placed[1])

    def _place(self, target: str, importer: str) -> tuple[Path, str] | None:
        """The file that a dotted target is in, and the rest of the name, which is a name in it."""
        return self._once(("place", target, importer), lambda: self._find_place(target, self._resolve(importer)))

    def _resolve(self, filename: str) -> Path:
        if filename not in self._importers:
            self._importers[filename] = Path(filename).resolve()
        return self._importers[filename]

    def _find_place(self, target: str, base: Path) -> tuple[Path, str] | None:
        if not target.startswith(".") and not self._is_own(target.partition(".")[0], base):
            return None
        path, name = self._follow(target, base)
        return None if path is None or path == base else (path, name)

    def _follow(self, target: str, base: Path, depth: int = 0) -> tuple[Path | None, str]:
        """The file of a dotted target and the name in it: what a package only passes on is found where it is made."""
        dots = len(target) - len(target.lstrip("."))
        rest = [part for part in target.split(".") if part]
        for length in range(len(rest), -1 if dots else 0, -1):
            path = self.locate("." * dots + ".".join(rest[:length]), base)
            if path is None:
                continue
            name = ".".join(rest[length:])
            if name and path.name == "__init__.py" and depth < REEXPORTS:
                found = self._passed_on_once(path, rest[length], depth)
                if found is not None:
                    return found[0], ".".join([found[1], *rest[length + 1 :]]).strip(".")
            return path, name
        return None, ""

    def _passed_on_once(self, package: Path, name: str, depth: int) -> tuple[Path, str] | None:
        """Each name is looked for once, not once on every way through packages that import each other by `*`."""
        return self._once(("passed on", package, name, depth), lambda: self._passed_on(package, name, depth))

    def _passed_on(self, package: Path, name: str, depth: int) -> tuple[Path, str] | None:
        """Where a name comes from that a package's `__init__` imports, by name or by `*`."""
        for target in self._imports(package).get(name, ()):
            path, found = self._follow(target, package, depth + 1)
            if path is not None and path != package:
                return path, found
        for target in self._imports(package).get("*", ()):
            path, found = self._follow(target, package, depth + 1)
            if path is None or path == package or found:
                continue
            if re.search(
                rb"^(async def|def|class)[ \t]+%b\b|^%b[ \t]*=" % ((name.encode(),) * 2), self._bytes_of(path), re.M
            ):
                return path, name
        return None

    def _imports(self, package: Path) -> dict[str, list[str]]:
        """{name: dotted targets} of the imports of a package's `__init__`; under "*" the modules imported whole."""
        return self._once(("imports", package), lambda: _imports_of(self._bytes_of(package)))

    def _is_own(self, top: str, importer: Path) -> bool:
        """Whether the first part of a dotted name is there at all: most imports are a library's."""
        return any(not {f"{top}/", f"{top}.py"}.isdisjoint(self._names_in(each)) for each in self._folders(importer))

    def _folders(self, importer: Path) -> tuple[str, str, str]:
        """Where an absolute import may start."""
        return str(importer.parent), str(self.root), os.path.join(self.root, "src")

    def locate(self, dotted: str, importer: Path) -> Path | None:
        """The file of a module by its dotted name, relative (leading dots) or seen from the root or the importer."""
        dots = len(dotted) - len(dotted.lstrip("."))
        parts = [part for part in dotted.split(".") if part]
        if not parts and not dots:
            return None
        if dots:
            folder = importer.parent
            for _ in range(dots - 1):
                folder = folder.parent
            return self._file_of(str(folder), parts) if parts else self._package(str(folder))
        found = (self._file_of(folder, parts) for folder in self._folders(importer))
        return next((path for path in found if path is not None), None)

    def _package(self, folder: str) -> Path | None:
        """The `__init__` of a folder that is named by dots alone."""
        return Path(folder, "__init__.py") if "__init__.py" in self._names_in(folder) else None

    def _file_of(self, folder: str, parts: list[str]) -> Path | None:
        for part in parts[:-1]:
            if f"{part}/" not in self._names_in(folder):
                return None
            folder = os.path.join(folder, part)
        names = self._names_in(folder)
        candidates = [os.path.join(folder, f"{parts[-1]}.py")] if f"{parts[-1]}.py" in names else []
        package = os.path.join(folder, parts[-1])
        if f"{parts[-1]}/" in names and "__init__.py" in self._names_in(package):
            candidates.append(os.path.join(package, "__init__.py"))
        for candidate in candidates:
            if candidate not in self._resolved:
                resolved = Path(os.path.realpath(candidate))
                self._resolved[candidate] = resolved if resolved.is_relative_to(self.root) else None
            if (found := self._resolved[candidate]) is not None:
                return found
        return None

    def module(self, path: Path) -> Module | None:
        """A module of the project, read once; None for one that is large, unreadable, or says nothing of training."""
        if path not in self._followed and len(self._followed) >= MODULES:
            return None
        self._followed.add(path)
        if path not in self._modules:
            self._modules[path] = self._read(path)
        self._look_at(path)
        return self._modules[path]

    def _read(self, path: Path) -> Module | None:
        data = self._bytes_of(path)
        if not data or len(data) > LARGEST or not any(word in data for word in _WORTH):
            return None
        self._count += 1
        try:
            text = data.decode("utf-8-sig")
            module = read_module(text, str(path), path.stem, first_id=FOREIGN * self._count)
            return replace(module, syntax=Unplaced(), lines=())
        except (UnicodeDecodeError, ReadError):
            return None

    def source(self, filename: str) -> str:
        """The text of a module that was followed."""
        return self._bytes_of(Path(filename)).decode("utf-8-sig", "replace")

    # ------------------------------------------------------------------------------------------ requirements

    def newest_allowed(self, library: str) -> Version:
        """The newest version of a library that the project's requirements allow."""
        return self._once(("newest", library), lambda: newest_allowed(self.root, library, self))

    def text(self, path: Path) -> str:
        data = self._bytes_of(path)
        return data.decode("utf-8", "replace") if len(data) < LARGEST_REQUIREMENTS else ""

    def names(self, folder: Path) -> frozenset[str]:
        return self._names_in(str(folder))

    # ------------------------------------------------------------------------------------------ the footprint

    def _once(self, question: tuple[object, ...], answer: Callable[[], T]) -> T:
        """The answer to a question, found once; each check that asks has looked at what the answer rests on."""
        if question not in self._answers:
            with recorded() as footprint:
                found = answer()
            self._answers[question] = found, footprint
        known, footprint = self._answers[question]
        asking = current()
        if asking is not None:
            asking.folders.update(footprint.folders)
            asking.files.update(footprint.files)
        return known  # type: ignore[return-value]

    def _names_in(self, folder: str) -> frozenset[str]:
        """The names of a folder below the root; another one is never looked into."""
        if folder not in self._names:
            if not Path(os.path.realpath(folder)).is_relative_to(self.root):
                return frozenset()
            names = names_in(folder)
            self._names[folder] = names, names_state(names)
        names, state = self._names[folder]
        footprint = current()
        if footprint is not None:
            footprint.folders[folder] = state
        return names

    def _bytes_of(self, path: Path) -> bytes:
        try:
            data = path.read_bytes()
            self._states[path] = digest(data)
        except OSError:
            data = b""
            self._states[path] = ABSENT
        self._look_at(path)
        return data

    def _look_at(self, path: Path) -> None:
        footprint = current()
        if footprint is not None:
            footprint.files[str(path)] = self._states[path]


def _imports_of(data: bytes) -> dict[str, list[str]]:
    """{name: dotted targets} of the `from` imports of a package's top level, also under `if` and `try`."""
    found: dict[str, list[str]] = {}
    if not data or len(data) > LARGEST:
        return found
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pending: list[ast.AST] = [*ast.parse(data).body]
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return found
    while pending:
        node = pending.pop(0)
        if isinstance(node, ast.ImportFrom):
            origin = "." * node.level + (node.module or "")
            for alias in node.names:
                dot = "" if origin.endswith(".") or not origin else "."
                target = origin if alias.name == "*" else f"{origin}{dot}{alias.name}"
                found.setdefault(alias.asname or alias.name, []).append(target)
        elif isinstance(node, (ast.If, ast.Try)):
            pending += [
                child for child in ast.iter_child_nodes(node) if isinstance(child, (ast.stmt, ast.ExceptHandler))
            ]
        elif isinstance(node, ast.ExceptHandler):
            pending += node.body
    return found
