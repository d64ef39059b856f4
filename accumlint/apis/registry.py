"""All tables together: what a call by canonical name, or a method of a class, does.

A table is any module of this folder that has `ROWS`; it may have `CLASSES`, `PATTERNS` and `RENAMES` too. Dropping a
file in is enough.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from typing import TYPE_CHECKING, TypeVar

from accumlint import apis
from accumlint.apis.language import ClassRow, Make, Operand, PatternRow, Rename, Role, Row
from accumlint.apis.signature import Signature, parse_signature
from accumlint.reading.requirements import NEWEST, Version, satisfies

if TYPE_CHECKING:
    from accumlint.reading.project import Project

T = TypeVar("T")
Described = TypeVar("Described", Row, ClassRow)
ANY_RECEIVER = ("accumlint.AnyReceiver", "torch.Tensor")
"""The classes whose methods are assumed of a receiver of which nothing is known."""


class TableError(Exception):
    """The tables contradict themselves: a fault of ours, never of the user's code."""


@dataclass(frozen=True, slots=True)
class Table:
    """One module of rows."""

    name: str
    rows: tuple[Row, ...]
    classes: tuple[ClassRow, ...] = ()
    patterns: tuple[PatternRow, ...] = ()
    renames: tuple[Rename, ...] = ()


@dataclass(frozen=True, slots=True)
class Registry:
    """Look-ups over a set of tables. Build it with `load`, or with `of` from tables of your own."""

    tables: tuple[Table, ...]
    _rows: dict[str, Row] = field(repr=False)
    _classes: dict[str, ClassRow] = field(repr=False)
    _renames: dict[str, str] = field(repr=False)
    _patterns: tuple[tuple[re.Pattern[str], str], ...] = field(repr=False)
    _liked: dict[str, str | None] = field(default_factory=dict, repr=False, compare=False)  # answers, remembered
    _canonical: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    _setters: dict[str, Row | None] = field(default_factory=dict, repr=False, compare=False)
    _found: dict[str, Row | None] = field(default_factory=dict, repr=False, compare=False)
    _is_class: dict[str, bool] = field(default_factory=dict, repr=False, compare=False)
    _methods: dict[tuple[str, str], Row | None] = field(default_factory=dict, repr=False, compare=False)
    _on_any: dict[str, Row | None] = field(default_factory=dict, repr=False, compare=False)
    _lineages: dict[str, tuple[str, ...]] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, tables: tuple[Table, ...], allowed: Mapping[str, Version] | None = None) -> Registry:
        """Join tables; `allowed` are the newest versions of libraries that rows must hold for, else the newest known.

        Raises:
            TableError: two rows, classes or renamings claim one name, or a pattern stands for no row.
        """
        rows: dict[str, Row] = {}
        classes: dict[str, ClassRow] = {}
        renames: dict[str, str] = {}
        for table in tables:
            for row in _holding(table.rows, allowed or {}):
                _claim(rows, row.call, row, table)
                for alias in row.aliases:
                    _claim(renames, alias, row.call, table)
            for known in _holding(table.classes, allowed or {}):
                _claim(classes, known.name, known, table)
                for alias in known.aliases:
                    if renames.get(alias) != known.name:
                        _claim(renames, alias, known.name, table)
            for rename in table.renames:
                _claim(renames, rename.old, rename.new, table)
        for name in renames.keys() & (rows.keys() | classes.keys()):
            raise TableError(f"{name} is a row, and an alias of {renames[name]}")
        patterns = tuple(
            (re.compile(p.pattern.replace(".", r"\.").replace("*", r"[^.]*")), p.like)
            for table in tables
            for p in table.patterns
        )
        for _, like in patterns:
            if like not in rows:
                raise TableError(f"a pattern stands for {like}, which is no row")
        return cls(tables, rows, classes, renames, patterns)

    def rows(self) -> Iterator[Row]:
        """All rows, by table, of whatever version."""
        return (row for table in self.tables for row in table.rows)

    def canonical(self, name: str) -> str:
        """The one name of a thing that can be imported under several; unknown names come back unchanged."""
        known = self._canonical.get(name)
        if known is None:
            known = self._canonical[name] = self._renamed(name)
        return known

    def _renamed(self, name: str) -> str:
        for _ in range(8):
            parts = name.split(".")
            for length in range(len(parts), 0, -1):
                renamed = self._renames.get(".".join(parts[:length]))
                if renamed is not None:
                    name = ".".join([renamed, *parts[length:]])
                    break
            else:
                return name
        raise TableError(f"renamings of {name} run in a circle")

    def find(self, call: str) -> Row | None:
        """The row of a function, of a constructor, or of `package.Class.method`, by dotted name."""
        if call not in self._found:
            self._found[call] = self._find(call)
        return self._found[call]

    def _find(self, call: str) -> Row | None:
        name = self.canonical(call)
        row = self._rows.get(name)
        if row is not None:
            return row
        like = self._like(name)
        if like is not None:
            return self._rows[like]
        owner, _, method = name.rpartition(".")
        return self.method(owner, method) if owner and self.is_class(owner) else None

    def is_class(self, name: str) -> bool:
        """Whether the tables know this class: by a class row, or by a constructor that makes an object."""
        if name not in self._is_class:
            self._is_class[name] = self._knows_class(name)
        return self._is_class[name]

    def _knows_class(self, name: str) -> bool:
        name = self.canonical(name)
        if name in self._classes or self._like(name) is not None:
            return True
        row = self._rows.get(name)
        return row is not None and any(isinstance(effect, Make) and not effect.canonical for effect in row.does)

    def method(self, class_name: str, method: str) -> Row | None:
        """The row of a method, walking the bases of the class."""
        asked = (class_name, method)
        if asked not in self._methods:
            rows = (self._rows.get(f"{name}.{method}") for name in self._lineage(class_name))
            self._methods[asked] = next((row for row in rows if row is not None), None)
        return self._methods[asked]

    def setter(self, class_name: str | None, attribute: str) -> Row | None:
        """The row of an assignment to an attribute; without a class, the one that means the same on all of them."""
        if class_name is not None:
            return self.method(class_name, f"{attribute}.__set__")
        if attribute not in self._setters:
            found = [row for call, row in self._rows.items() if call.endswith(f".{attribute}.__set__")]
            same = bool(found) and all(row.does == found[0].does for row in found)
            self._setters[attribute] = found[0] if same else None
        return self._setters[attribute]

    def returned(self, class_name: str, method: str) -> Row | None:
        """What the framework does with the value that the user's own method of a subclass returns."""
        return self.method(class_name, f"{method}.__return__")

    def after(self, class_name: str, method: str) -> Row | None:
        """What the framework does when the user's own method of a subclass, which runs the backward, has returned."""
        return self.method(class_name, f"{method}.__after__")

    def by_method(self, method: str) -> Row | None:
        """The row of a method whose receiver is unknown, for the few that mean the same on any receiver."""
        if method not in self._on_any:
            rows = (self._rows.get(f"{owner}.{method}") for owner in ANY_RECEIVER)
            self._on_any[method] = next((row for row in rows if row is not None), None)
        return self._on_any[method]

    def attribute(self, class_name: str, attribute: str) -> Operand | None:
        """What an attribute of a class holds before anything has set it."""
        for name in self._lineage(class_name):
            known = self._classes.get(name)
            for key, operand in known.attributes if known else ():
                if key == attribute:
                    return operand
        return None

    def role_of(self, class_name: str) -> Role | None:
        """What objects of a class are for."""
        for name in self._lineage(class_name):
            known = self._classes.get(name)
            if known is not None and known.role is not None:
                return known.role
            row = self._rows.get(name)
            for effect in row.does if row else ():
                if isinstance(effect, Make):
                    return effect.role
        return None

    def is_subclass(self, class_name: str, base: str) -> bool:
        """Whether `base` is the class itself or among its bases."""
        return self.canonical(base) in self._lineage(class_name)

    def signature(self, row: Row) -> Signature:
        return parse_signature(row.parameters)

    def _like(self, name: str) -> str | None:
        if name in self._rows or name in self._classes:
            return None
        if name not in self._liked:
            self._liked[name] = self._first_like(name)
        return self._liked[name]

    def _first_like(self, name: str) -> str | None:
        return next((like for pattern, like in self._patterns if pattern.fullmatch(name)), None)

    def _lineage(self, class_name: str) -> tuple[str, ...]:
        """The class and its bases, nearest first; a class known only by a pattern is the one that stands in for it."""
        known = self._lineages.get(class_name)
        if known is None:
            known = self._lineages[class_name] = self._find_lineage(class_name)
        return known

    def _find_lineage(self, class_name: str) -> tuple[str, ...]:
        todo = [self.canonical(class_name)]
        seen: list[str] = []
        while todo:
            name = todo.pop(0)
            name = self._like(name) or name
            if name in seen:
                continue
            seen.append(name)
            known = self._classes.get(name)
            todo = [self.canonical(base) for base in known.bases] + todo if known else todo
        return tuple(seen)


@cache
def load() -> Registry:
    """The registry of all tables in this folder, for the newest versions of all libraries."""
    return Registry.of(tuple(_read_tables()))


def load_for(project: Project | None) -> Registry:
    """The registry of all tables in this folder, for the newest versions that a project's requirements allow."""
    found = {name: project.newest_allowed(name) for name in _versioned()} if project is not None else {}
    bounds = tuple((name, version) for name, version in found.items() if version != NEWEST)
    return _load_bound(bounds) if bounds else load()


@lru_cache(maxsize=8)
def _load_bound(bounds: tuple[tuple[str, Version], ...]) -> Registry:
    return Registry.of(load().tables, dict(bounds))


@cache
def _versioned() -> tuple[str, ...]:
    """The libraries of which some row holds for some versions only."""
    rows = [row.call for row in load().rows() if row.versions]
    return tuple(dict.fromkeys(call.partition(".")[0] for call in rows))


def _holding(parts: tuple[Described, ...], allowed: Mapping[str, Version]) -> Iterator[Described]:
    """The rows or classes that hold for the newest allowed version of their library."""
    for part in parts:
        library = (part.call if isinstance(part, Row) else part.name).partition(".")[0]
        if satisfies(allowed.get(library, NEWEST), part.versions):
            yield part


def _read_tables() -> Iterator[Table]:
    for module in sorted(pkgutil.iter_modules(apis.__path__), key=lambda module: module.name):
        if module.name in {"language", "signature", "registry", "check"}:
            continue
        contents = vars(importlib.import_module(f"{apis.__name__}.{module.name}"))
        if "ROWS" in contents:
            yield Table(
                module.name,
                contents["ROWS"],
                contents.get("CLASSES", ()),
                contents.get("PATTERNS", ()),
                contents.get("RENAMES", ()),
            )


def _claim(claims: dict[str, T], name: str, what: T, table: Table) -> None:
    if name in claims:
        raise TableError(f"{table.name}: {name} is described twice")
    claims[name] = what
