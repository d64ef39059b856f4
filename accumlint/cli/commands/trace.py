"""`accumlint trace`: what the interpreter saw, for a bug report and for those who write rules."""

from __future__ import annotations

from pathlib import Path

import click

from accumlint.cli.config import contracts_near
from accumlint.cli.errors import CLEAN, UsageError


@click.command("trace", short_help="Print the interpreter's traces of a file.")
@click.argument("file", type=click.Path())
def command(file: str) -> int:
    """Print the traces of the training loops of FILE, one event a line."""
    from accumlint.analysis import traces
    from accumlint.reading.read import ReadError
    from accumlint.source.notebook import read_path
    from accumlint.source.text import SourceError

    try:
        texts = list(traces(read_path(Path(file)), contracts_near(Path(file))))
    except (SourceError, ReadError) as error:
        where = f"{file}:{error.line}" if error.line else file
        raise UsageError(f"{where}: {error.message}") from None
    if not texts:
        click.echo(f"{file}: no training loop", err=True)
    for text in texts:
        click.echo(text)
    return CLEAN
