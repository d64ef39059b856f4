"""`accumlint apis`: what is known of library calls."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum
from typing import Any

import click

from accumlint.apis.language import Row
from accumlint.cli.errors import CLEAN, UsageError


@click.command("apis", short_help="Print what is known of library calls.")
@click.argument("word", required=False)
def command(word: str | None) -> int:
    """Print the rows of the library tables; with WORD those whose call or table contains it."""
    from accumlint.apis import registry

    shown = 0
    for table in registry.load().tables:
        rows = [row for row in table.rows if not word or word.lower() in f"{table.name} {row.call}".lower()]
        if rows:
            click.echo("\n".join([f"# {table.name}", *(line for row in rows for line in describe(row)), ""]))
        shown += len(rows)
    if not shown:
        raise UsageError(f'apis: no table and no call contains "{word}"')
    return CLEAN


def describe(row: Row) -> Iterator[str]:
    """A row as text: the call, what it does, what is assumed, where that was read."""
    versions = f"  [{row.versions}]" if row.versions else ""
    yield f"{row.call}({row.parameters}){versions}"
    for effect in row.does:
        yield f"    does     {compact(effect)}"
    if not row.does:
        yield "    does     nothing to losses, gradients and clocks"
    for effect in row.undo:
        yield f"    on exit  {compact(effect)}"
    for assumption in row.assumes:
        yield f"    assumes  {assumption}"
    for alias in row.aliases:
        yield f"    alias    {alias}"
    yield f"    source   {row.source}"


def compact(value: Any) -> str:
    """The value as code, without the fields that have their default."""
    if isinstance(value, Enum):
        return value.name
    if is_dataclass(value) and not isinstance(value, type):
        told = [
            f"{field.name}={compact(getattr(value, field.name))}"
            for field in fields(value)
            if getattr(value, field.name) != _default(field)
        ]
        return f"{type(value).__name__}({', '.join(told)})"
    if isinstance(value, tuple):
        return "(" + ", ".join(map(compact, value)) + ("," if len(value) == 1 else "") + ")"
    return repr(value)


def _default(field: Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default
