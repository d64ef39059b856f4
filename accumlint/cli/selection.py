"""Which rules are reported: prefixes, layers (configuration, then flags), and per-file ignores."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from accumlint.cli.errors import UsageError, nearest


@dataclass(frozen=True, slots=True)
class Layer:
    """The choices of one place. `select` replaces what stood before, the others change it."""

    select: tuple[str, ...] | None = None
    extend_select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()


def choose(layers: Iterable[Layer], default: frozenset[str], known: frozenset[str]) -> frozenset[str]:
    """The codes to report. Within a layer the longer prefix wins, and `ignore` against an equally long one."""
    chosen = set(default)
    for layer in layers:
        if layer.select is not None:
            chosen = set()
        orders = [(prefix, True) for prefix in (*(layer.select or ()), *layer.extend_select)]
        orders += [(prefix, False) for prefix in layer.ignore]
        for prefix, wanted in sorted(orders, key=lambda order: (_length(order[0]), not order[1])):
            matching = expand(prefix, known)
            chosen = chosen | matching if wanted else chosen - matching
    return frozenset(chosen)


def expand(prefix: str, known: frozenset[str]) -> frozenset[str]:
    """The codes that a prefix stands for; `ALL` stands for every code."""
    return known if prefix == "ALL" else frozenset(code for code in known if code.startswith(prefix))


def check_prefixes(prefixes: Iterable[str], known: frozenset[str], where: str) -> tuple[str, ...]:
    """The prefixes in upper case; an unknown one is an error that names the nearest code."""
    checked = []
    for prefix in prefixes:
        upper = prefix.strip().upper()
        if not upper or not expand(upper, known):
            raise UsageError(f'{where}: unknown rule code "{prefix.strip()}"{nearest(upper, sorted(known))}')
        checked.append(upper)
    return tuple(checked)


def _length(prefix: str) -> int:
    return 0 if prefix == "ALL" else len(prefix)


class PerFileIgnores:
    """Codes that are not reported in files that match a pattern, read as .gitignore reads one."""

    def __init__(self, table: Mapping[str, Sequence[str]], root: Path) -> None:
        self._table = dict(table)
        self._root = root

    def codes(self, path: Path, known: frozenset[str]) -> frozenset[str]:
        """The codes that are ignored in `path`."""
        if not self._table:
            return frozenset()
        import pathspec  # only for those who use patterns

        try:
            relative = path.resolve().relative_to(self._root.resolve()).as_posix()
        except ValueError:
            relative = path.name
        ignored: set[str] = set()
        for pattern, prefixes in self._table.items():
            spec = pathspec.GitIgnoreSpec.from_lines([pattern.removeprefix("!")])
            if bool(spec.match_file(relative)) != pattern.startswith("!"):
                for prefix in prefixes:
                    ignored |= expand(prefix, known)
        return frozenset(ignored)
