"""`[tool.accumlint]` of the nearest pyproject.toml: found, read and checked against the table of keys."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import Any

from accumlint.cli.config_keys import BY_NAME, Key, Kind
from accumlint.cli.contracts import read_contracts
from accumlint.cli.errors import UsageError, nearest
from accumlint.cli.rules import known_codes
from accumlint.cli.selection import check_prefixes
from accumlint.reading.contracts import LossContract


@dataclass(frozen=True, slots=True)
class Configuration:
    """The checked table. `path` is the file it came from, `root` the folder that its patterns start from."""

    values: Mapping[str, Any] = field(default_factory=dict)
    path: Path | None = None
    root: Path = field(default_factory=Path.cwd)

    def get(self, name: str, default: Any = None) -> Any:
        """The value of a key of the table; a misspelt key is a fault of ours."""
        return self.values.get(BY_NAME[name].name, default)


def find(start: Path) -> Path | None:
    """The nearest pyproject.toml upward that has a `[tool.accumlint]`; an unreadable one on the way is an error."""
    for folder in (start, *start.parents):
        candidate = folder / "pyproject.toml"
        if candidate.is_file() and _table(candidate, required=False) is not None:
            return candidate
    return None


def contracts_near(path: Path) -> tuple[LossContract, ...]:
    """The loss contracts that hold for a file, by the nearest configuration upward from it."""
    found = find(path.absolute().parent)
    contracts: tuple[LossContract, ...] = () if found is None else read(found, known_codes()).get("loss-contracts", ())
    return contracts


def read(path: Path, known: frozenset[str]) -> Configuration:
    """The table of one file: pyproject.toml, or a file that holds the keys at its top level."""
    table = _table(path, required=True)
    assert table is not None
    values = {name: check(name, value, known, str(path)) for name, value in table.items()}
    return Configuration(values, path, path.resolve().parent)


def check(name: str, value: Any, known: frozenset[str], where: str) -> Any:
    """The value in the form that the rest uses; anything wrong is said with the file, the key and what is expected."""
    key = BY_NAME.get(name)
    if key is None:
        raise UsageError(f'{where}: unknown key "{name}" in [tool.accumlint]{nearest(name, BY_NAME)}')
    place = f"{where}: {name}"
    match key.kind:
        case Kind.CODES:
            return check_prefixes(_strings(value, place), known, place)
        case Kind.PATTERNS:
            return _strings(value, place)
        case Kind.BOOLEAN if isinstance(value, bool):
            return value
        case Kind.CHOICE:
            return _choice(value, key, place)
        case Kind.CODES_BY_PATTERN if isinstance(value, dict):
            return {
                pattern: check_prefixes(_strings(codes, f'{place}."{pattern}"'), known, f'{place}."{pattern}"')
                for pattern, codes in value.items()
            }
        case Kind.CONTRACTS:
            return read_contracts(value, where)
        case Kind.TEXT if isinstance(value, str):
            return value
    raise UsageError(f"{place}: expected {key.kind.value}, not {_shown(value)}")


def _choice(value: Any, key: Key, place: str) -> str:
    if isinstance(value, str) and value in key.choices:
        return value
    hint = nearest(value, key.choices) if isinstance(value, str) else ""
    raise UsageError(f"{place}: expected one of {', '.join(key.choices)}, not {_shown(value)}{hint}")


def _strings(value: Any, place: str) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return tuple(value)
    raise UsageError(f"{place}: expected a list of strings, not {_shown(value)}")


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _table(path: Path, required: bool) -> dict[str, Any] | None:
    tomllib = import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        document = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise UsageError(f"{path}: cannot be read: {error.strerror or error}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}: not valid TOML: {str(error) or 'nested too deeply'}") from None
    tool = document.get("tool", {})
    found = tool.get("accumlint") if isinstance(tool, dict) else None
    if found is None and required and path.name != "pyproject.toml":
        found = document
    if found is None:
        return {} if required else None
    if not isinstance(found, dict):
        raise UsageError(f"{path}: [tool.accumlint] is not a table")
    return found
