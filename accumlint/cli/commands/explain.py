"""`accumlint explain`: the accumulation windows of a loop, drawn."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from accumlint.cli.errors import CLEAN, UsageError


@click.command("explain", short_help="Draw the accumulation windows of a training loop.")
@click.argument("place", metavar="FILE[:LINE]")
@click.option("--html", metavar="OUT", type=click.Path(dir_okay=False), help="Write one page of HTML instead.")
def command(place: str, html: str | None) -> int:
    """Draw the windows of the training loops of FILE, or of those that hold LINE.

    Of each window: its microbatches, the weight that a target of each gets beside the weight it should get, and where
    the gradient is clipped, used, and cleared. Nothing is run. Exit codes: 0 drawn, 2 an error.
    """
    from accumlint.analysis import LARGEST_TEXT
    from accumlint.reading.read import ReadError
    from accumlint.report import timeline
    from accumlint.report.styled import paint, plain
    from accumlint.source.notebook import NotebookText, read_path
    from accumlint.source.text import SourceError
    from accumlint.source.write import WriteError, write_atomically

    file, at_line = _split(place)
    try:
        source = read_path(Path(file))
        if at_line is not None and isinstance(source, NotebookText):
            raise UsageError(f"explain: {file} is a notebook: give it without a line")
        if len(source.text) > LARGEST_TEXT:
            raise UsageError(f"{file}: too large")
        drawn = timeline.timelines(source, at_line)
    except (SourceError, ReadError) as error:
        where = f"{file}:{error.line}" if error.line else file
        raise UsageError(f"{where}: {error.message}") from None
    if not drawn:
        raise UsageError(f"explain: no training loop {f'at line {at_line} of' if at_line else 'in'} {file}")
    if html is not None:
        try:
            write_atomically(html, timeline.page(drawn, file).encode("utf-8", "backslashreplace"))
        except WriteError as error:
            raise UsageError(f"--html: {error}") from None
    elif _wants_colour():
        paint(timeline.lines(drawn, file), sys.stdout)
    else:
        click.echo(plain(timeline.lines(drawn, file)), nl=False)
    return CLEAN


def _split(place: str) -> tuple[str, int | None]:
    """FILE:LINE, unless there is a file of just that name."""
    file, separator, number = place.rpartition(":")
    if not separator or not (number.isascii() and number.isdigit()) or Path(place).exists():
        return place, None
    if len(number) > 9 or not int(number):
        raise UsageError(f"explain: there is no line {number[:12]}")
    return file, int(number)


def _wants_colour() -> bool:
    if os.environ.get("NO_COLOR"):
        return False
    return bool(os.environ.get("FORCE_COLOR")) or (sys.stdout.isatty() and os.environ.get("TERM") != "dumb")
