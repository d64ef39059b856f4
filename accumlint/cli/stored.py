"""A checked file as plain data (dictionaries, lists, strings, numbers) and back, for the cache.

Nothing but the classes named in the annotations of `Result` can come back, and each value is held against its
annotation: data of another form is refused. A repair that several findings share is one object again.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Any, Union, cast, get_args, get_origin, get_type_hints

from accumlint.findings import Finding, Loop, Problem

FROZEN = {tuple: tuple, frozenset: frozenset}


class CorruptError(ValueError):
    """Data that is no result."""


@dataclass(frozen=True, slots=True)
class Result:
    """What was found in a file, without its text."""

    findings: tuple[Finding, ...] = ()
    loops: tuple[Loop, ...] = ()
    problems: tuple[Problem, ...] = ()
    suppressed: int = 0

    @property
    def is_silent(self) -> bool:
        """Whether nothing is printed of the file, so that its text is not needed."""
        return not (self.findings or self.loops or self.problems)


def dump(value: Any) -> Any:
    """A dataclass as the list of its fields, an enum as its value, a mapping as a list of pairs."""
    match value:
        case Enum():
            return value.value
        case str() | int() | float() | None:
            return value
        case tuple() | list():
            return [dump(each) for each in value]
        case frozenset():
            return sorted(dump(each) for each in value)
        case dict():
            return [[dump(key), dump(each)] for key, each in value.items()]
        case _ if dataclasses.is_dataclass(value):
            return [dump(getattr(value, field.name)) for field in dataclasses.fields(value)]
    raise TypeError(f"{type(value).__name__} is not stored")


def load(data: Any) -> Result:
    """Raises CorruptError for anything that `dump` did not make of a Result."""
    try:
        return cast(Result, _Loader().value(Result, data))
    except (TypeError, ValueError, RecursionError) as error:
        raise CorruptError(str(error)) from None


class _Loader:
    """Loads one result; equal objects that are frozen and hashable become one."""

    def __init__(self) -> None:
        self._same: dict[tuple[type, str], Any] = {}

    def value(self, kind: Any, data: Any) -> Any:
        origin, arguments = get_origin(kind), get_args(kind)
        if origin in (types.UnionType, Union):
            return self._optional(arguments, data)
        if origin in FROZEN:
            return self._several(FROZEN[origin], arguments, data)
        if origin is dict:
            return {self.value(arguments[0], key): self.value(arguments[1], each) for key, each in data}
        if dataclasses.is_dataclass(kind):
            return self._object(cast(type, kind), data)
        if issubclass(kind, Enum):
            return kind(data)
        if type(data) is kind or (kind is float and type(data) is int):
            return kind(data)
        raise CorruptError(f"{type(data).__name__} instead of {kind.__name__}")

    def _optional(self, kinds: tuple[Any, ...], data: Any) -> Any:
        if data is None:
            return None
        (kind,) = [each for each in kinds if each is not type(None)]
        return self.value(kind, data)

    def _several(self, make: Callable[[list[Any]], Any], kinds: tuple[Any, ...], data: Any) -> Any:
        if not isinstance(data, list):
            raise CorruptError(f"{type(data).__name__} instead of a list")
        if kinds[-1] is ... or make is frozenset:
            return make([self.value(kinds[0], each) for each in data])
        return make([self.value(kind, each) for kind, each in zip(kinds, data, strict=True)])

    def _object(self, kind: type, data: Any) -> Any:
        key = (kind, repr(data))
        if key not in self._same:
            fields = zip(_fields(kind), data, strict=True)
            self._same[key] = kind(**{name: self.value(field, each) for (name, field), each in fields})
        return self._same[key]


@cache
def _fields(kind: type) -> tuple[tuple[str, Any], ...]:
    hints = get_type_hints(kind)
    return tuple((field.name, hints[field.name]) for field in dataclasses.fields(kind))
