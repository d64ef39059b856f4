"""Classes of values that are made by the thousand: frozen for the type checker, cheap to make at run time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from typing_extensions import dataclass_transform
else:

    def dataclass_transform(**_: Any) -> Callable[[Any], Any]:
        return lambda decorator: decorator


T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def record(cls: type[T]) -> type[T]:
    """A dataclass that nobody changes once it is made, compared by its fields.

    A frozen dataclass sets each field by a call of `object.__setattr__`: making one costs six times as much, which was
    an eighth of a run. So it is mypy alone that refuses an assignment.
    """
    return dataclass(slots=True, unsafe_hash=True)(cls)


@dataclass_transform(eq_default=False)
def built(cls: type[T]) -> type[T]:
    """A thing whose `__init__` is written out, as it is made most often of all. Nobody changes it either."""
    return dataclass(slots=True, eq=False, init=False)(cls)


@dataclass_transform(frozen_default=True, eq_default=False)
def thing(cls: type[T]) -> type[T]:
    """The same, compared by identity."""
    return dataclass(slots=True, eq=False)(cls)
