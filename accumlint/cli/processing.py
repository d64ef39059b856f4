"""One input from its bytes to its outcome: checked, repaired, previewed or commented."""

from __future__ import annotations

from dataclasses import dataclass

from accumlint.cli.checking import check_text
from accumlint.cli.diffs import unified_diff
from accumlint.cli.errors import describe_fault
from accumlint.cli.fixing import repair
from accumlint.cli.inputs import Input
from accumlint.cli.settings import Settings
from accumlint.findings import Problem
from accumlint.reading.footprint import Footprint, digest, recorded
from accumlint.report.model import CheckedFile
from accumlint.source.notebook import NotPythonError, read_bytes
from accumlint.source.suppressions import add_noqa
from accumlint.source.text import SourceError, SourceText
from accumlint.source.write import WriteError, write_atomically


@dataclass(frozen=True, slots=True)
class Outcome:
    """`file` is None for an input that is not Python (a notebook of another language)."""

    file: CheckedFile | None
    changed: bool = False  # was changed, or would be by what --diff shows
    stdout: bytes = b""  # a diff, or the repaired stdin
    key: str = ""  # what the cache keeps it under, "" if it does not
    footprint: Footprint | None = None  # what the check looked at beside the file


def process(found: Input, settings: Settings) -> Outcome:
    """Never raises: whatever goes wrong with this input is a problem in its file."""
    try:
        return _process(found, settings)
    except NotPythonError:
        return Outcome(None)
    except SourceError as error:
        problem = Problem(found.shown, error.message, error.line, error.column)
    except WriteError as error:
        problem = Problem(found.shown, error.message)
    except Exception as error:  # a fault of ours in one file must not keep the others from being checked
        problem = Problem(found.shown, describe_fault(error), internal=True)
    return Outcome(CheckedFile(found.shown, problems=[problem]))


def _process(found: Input, settings: Settings) -> Outcome:
    source = found.read()
    if settings.flags["add_noqa"]:
        return _add_noqa(source, found, settings)
    if not settings.fix and not settings.diff:
        with recorded() as footprint:
            file = check_text(source, found.shown, found.path, settings)
        return Outcome(file, key="" if found.is_stdin else found.key(digest(source.data)), footprint=footprint)
    repaired = repair(source, found.shown, found.path, settings)
    file, new = repaired.file, repaired.source
    changed = new.data != source.data
    if settings.diff:
        return Outcome(file, changed, unified_diff(source, new, found.shown) if changed else b"")
    if found.is_stdin:
        return Outcome(file, changed, new.data)
    if changed:
        _write(found, new.data, source.data)
    return Outcome(file, changed)


def _add_noqa(source: SourceText, found: Input, settings: Settings) -> Outcome:
    file = check_text(source, found.shown, found.path, settings)
    codes: dict[int, list[str]] = {}
    for finding in file.findings:
        codes.setdefault(finding.span.line, []).append(finding.code)
    data = source.encode(add_noqa(source.text, codes))
    changed = data != source.data
    if changed:
        after = check_text(read_bytes(source.filename, data), found.shown, found.path, settings)
        after.noqa_added = len(file.findings) - len(after.findings)
        file = after
    if found.is_stdin:
        return Outcome(file, changed, data)
    if changed:
        _write(found, data, source.data)
    return Outcome(file, changed)


def _write(found: Input, data: bytes, expected: bytes) -> None:
    """Raises WriteError; a file that changed since it was read is left alone."""
    write_atomically(found.path, data, expected)
