"""Where the report goes: stdout or a file, in colour or not; messages go to stderr."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import TextIO

from accumlint.cli.errors import UsageError
from accumlint.cli.settings import Settings
from accumlint.findings import Problem
from accumlint.report import statistics
from accumlint.report.formats import FORMATS, load
from accumlint.report.headline import where
from accumlint.report.model import Run, plural
from accumlint.report.styled import Line, Piece, line, paint, plain
from accumlint.report.summary import not_reached, repairs, summary
from accumlint.source.write import WriteError, write_atomically


def report(run: Run, settings: Settings, to_stderr: bool) -> None:
    """Print the run as the settings say; to stderr where stdout holds the repaired text.

    Raises UsageError if the output file cannot be written.
    """
    if settings.quiet >= 2:
        return
    stream = sys.stderr if to_stderr else sys.stdout
    if FORMATS[settings.output_format].machine:
        _machine(run, settings, stream)
    else:
        _human(run, settings, stream)


def diff_summary(run: Run, settings: Settings) -> None:
    """Below a diff, on stderr: what would be repaired and what is left."""
    if settings.quiet:
        return
    would = sum(sum(file.fixed.values()) for file in run.files)
    say([line(f"Would repair {plural(would, 'error')}; {plural(run.count(), 'error')} would be left")], settings)
    say(_summary_of_repairs(run, settings), settings)


def _machine(run: Run, settings: Settings, stream: TextIO) -> None:
    if settings.flags["statistics"] and settings.output_format.startswith("json"):
        text = statistics.as_json(run)
    else:
        text = load(settings.output_format)(run)
    _write_text(text, settings, stream)
    if settings.verbose:
        say([*not_reached(run), *_summary(run, settings)], settings)


def _human(run: Run, settings: Settings, stream: TextIO) -> None:
    if settings.flags["statistics"]:
        shown: list[Line] = list(statistics.lines(run))
    else:
        shown = list(import_module(FORMATS[settings.output_format].module).lines(run))
    if not settings.quiet:
        shown += not_reached(run) if settings.verbose else ()
        shown += _summary(run, settings)
    if settings.output_file is None and wants_colour(stream, settings):
        paint(shown, stream)
    else:
        _write_text(plain(shown), settings, stream)


def _summary(run: Run, settings: Settings) -> Iterator[Line]:
    yield from summary(run, bool(settings.verbose))
    yield from _summary_of_repairs(run, settings)


def _summary_of_repairs(run: Run, settings: Settings) -> Iterator[Line]:
    return repairs(run, settings.confirms, find_spec("torch") is not None)


def check_writable(settings: Settings) -> None:
    """Find out that the report cannot be written before anything is changed. Raises UsageError."""
    if settings.output_file is None:
        return
    folder = settings.output_file.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"--output-file: {settings.output_file}: there is no such folder")
    if settings.output_file.is_dir() or not os.access(folder, os.W_OK):
        raise UsageError(f"--output-file: {settings.output_file}: cannot be written")


def _write_text(text: str, settings: Settings, stream: TextIO) -> None:
    if settings.output_file is None:
        stream.write(text)
        return
    try:
        write_atomically(settings.output_file, text.encode("utf-8", "backslashreplace"))
    except WriteError as error:
        raise UsageError(f"--output-file: {error}") from None


def problems(run: Run, settings: Settings) -> None:
    """What could not be checked, on stderr, whatever the format."""
    say((_problem(run, problem) for problem in run.all_problems()), settings)


def _problem(run: Run, problem: Problem) -> Line:
    place = problem.filename
    file = next((file for file in run.files if file.filename == problem.filename), None)
    if problem.line:
        placed = file.place(problem.line, problem.column) if file else None
        place = where(problem.filename, placed) if placed else f"{problem.filename}:{problem.line}"
    message = f"internal error: {problem.message}" if problem.internal else problem.message
    return line(Piece("error", "code"), ": ", Piece(place, "path"), f": {message}" if place else message)


def say(lines: Iterable[Line], settings: Settings) -> None:
    """Write to stderr."""
    if wants_colour(sys.stderr, settings):
        paint(lines, sys.stderr)
    else:
        sys.stderr.write(plain(lines))


def say_plainly(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def wants_colour(stream: TextIO, settings: Settings) -> bool:
    """--color and --no-color win, then NO_COLOR and FORCE_COLOR, then whether it is a terminal."""
    flag = settings.flags["color"]
    if flag is not None:
        return bool(flag)
    if os.environ.get("NO_COLOR"):
        return False
    if os.environ.get("FORCE_COLOR"):
        return True
    return stream.isatty() and os.environ.get("TERM") != "dumb"


def write_bytes(data: bytes) -> None:
    """Bytes to stdout exactly as they are."""
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
