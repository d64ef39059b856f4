"""`accumlint config`: the keys of `[tool.accumlint]`."""

from __future__ import annotations

import json

import click

from accumlint.cli.complete import keys
from accumlint.cli.config_keys import BY_NAME, KEYS, schema
from accumlint.cli.errors import CLEAN, UsageError, nearest


@click.command("config", short_help="Explain the configuration.")
@click.argument("key", required=False, shell_complete=keys)
@click.option("--schema", "as_schema", is_flag=True, help="Print the JSON schema of the table.")
def command(key: str | None, as_schema: bool) -> int:
    """Print the keys of [tool.accumlint] in pyproject.toml, or explain one KEY."""
    if as_schema:
        click.echo(json.dumps(schema(), indent=2))
        return CLEAN
    if key is not None and key not in BY_NAME:
        raise UsageError(f'config: unknown key "{key}"{nearest(key, BY_NAME)}')
    for known in KEYS if key is None else (BY_NAME[key],):
        click.echo(f"{known.name}: {known.kind.value}  [default: {known.default}]\n    {known.help}")
        if known.choices:
            click.echo(f"    choices: {', '.join(known.choices)}")
        click.echo(f"    example: {known.example}")
    return CLEAN
