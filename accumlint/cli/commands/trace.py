"""`accumlint trace`: what the interpreter saw, for a bug report and for those who write rules."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

import click

from accumlint.cli.errors import CLEAN, UsageError


@click.command("trace", short_help="Print the interpreter's traces of a file.")
@click.argument("file", type=click.Path())
def command(file: str) -> int:
    """Print the traces of the training loops of FILE, one event a line."""
    from accumlint.source.notebook import read_path
    from accumlint.source.text import SourceError

    try:
        source = read_path(Path(file))
    except SourceError as error:
        raise UsageError(f"{file}: {error.message}") from None
    traces = getattr(import_module("accumlint.analysis"), "traces", None)
    if traces is None:
        raise UsageError("trace: this release prints no traces")
    for text in traces(source):
        click.echo(text)
    return CLEAN
