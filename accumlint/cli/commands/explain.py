"""`accumlint explain`: the accumulation windows of a loop, drawn."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import click

from accumlint.cli.config import contracts_near
from accumlint.cli.errors import CLEAN, UsageError
from accumlint.cli.repaired import repaired


@click.command("explain", short_help="Draw the accumulation windows of a training loop.")
@click.argument("place", metavar="FILE[:LINE]")
@click.option("--html", metavar="OUT", type=click.Path(dir_okay=False), help="Write one page of HTML instead.")
@click.option(
    "--json", "json_", metavar="OUT", type=click.Path(dir_okay=False), help="Write the numbers as JSON instead."
)
@click.option("--all", "everything", is_flag=True, help="Draw windows that look like earlier ones, too.")
@click.option("--repair/--no-repair", default=True, help="Draw the repaired windows beside them.  [default: repair]")
def command(place: str, html: str | None, json_: str | None, everything: bool, repair: bool) -> int:
    """Draw the windows of the training loops of FILE, or of those that hold LINE.

    Of each window: its microbatches, the weight that a target of each gets beside the weight it should get, where the
    gradient is scaled, clipped, used and cleared, and the same of the repaired loop, if a repair is known. Nothing is
    run or changed. Exit codes: 0 drawn, 2 an error.
    """
    from accumlint.analysis import LARGEST_TEXT
    from accumlint.picture.page import page
    from accumlint.reading.read import ReadError
    from accumlint.report import timeline
    from accumlint.report.styled import paint, plain
    from accumlint.source.notebook import NotebookText, read_path
    from accumlint.source.text import SourceError

    file, at_line = _split(place)
    try:
        source = read_path(Path(file))
        if at_line is not None and isinstance(source, NotebookText):
            raise UsageError(f"explain: {file} is a notebook: give it without a line")
        if len(source.text) > LARGEST_TEXT:
            raise UsageError(f"{file}: too large")
        contracts = contracts_near(Path(file))
        fixed = repaired(source, contracts) if repair else None
        drawn = timeline.read_loops(source, at_line, fixed, contracts)
    except (SourceError, ReadError) as error:
        where = f"{file}:{error.line}" if error.line else file
        raise UsageError(f"{where}: {error.message}") from None
    if not drawn:
        raise UsageError(f"explain: no training loop {f'at line {at_line} of' if at_line else 'in'} {file}")
    if html is not None:
        _write(html, page(drawn, file, timeline.CAPTION, everything), "--html")
    if json_ is not None:
        _write(json_, json.dumps([loop.to_dict() for loop in drawn], indent=2) + "\n", "--json")
    if html is not None or json_ is not None:
        return CLEAN
    if _wants_colour():
        paint(timeline.lines(drawn, file, everything), sys.stdout)
    else:
        click.echo(plain(timeline.lines(drawn, file, everything)), nl=False)
    return CLEAN


def _write(path: str, text: str, option: str) -> None:
    from accumlint.source.write import WriteError, write_atomically

    try:
        write_atomically(path, text.encode("utf-8", "backslashreplace"))
    except WriteError as error:
        raise UsageError(f"{option}: {error}") from None


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
