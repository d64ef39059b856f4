"""Repair one file: apply what is wanted, check again, until nothing is left to apply."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass
from pathlib import Path

from accumlint.cli.checking import check_text
from accumlint.cli.editing import apply, touched, wanted_fixes
from accumlint.cli.errors import describe_fault
from accumlint.cli.rules import known_codes
from accumlint.cli.settings import Settings
from accumlint.findings import Edit, Problem
from accumlint.report.model import UNUSED_SUPPRESSION, CheckedFile
from accumlint.source.notebook import read_bytes
from accumlint.source.suppressions import Suppressions
from accumlint.source.text import SourceError, SourceText

ROUNDS = 10


@dataclass(frozen=True, slots=True)
class Repaired:
    """A file after its repairs; `source` is the text that should be written, the original one if nothing changed."""

    file: CheckedFile
    source: SourceText


def repair(source: SourceText, shown: str, path: Path, settings: Settings) -> Repaired:
    """Check, apply and check again. A repair that cannot be carried through leaves the file as it was, and is said."""
    first = check_text(source, shown, path, settings)
    file, text = first, source
    for _ in range(ROUNDS):
        fixes = wanted_fixes(file, settings, Protection(text.text))
        if not fixes:
            break
        try:
            changed = read_bytes(text.filename, text.encode(apply(text.text, fixes)))
        except SourceError as error:
            return _given_up(first, source, Problem(shown, f"not repaired: {error.message}", error.line, error.column))
        except ValueError as error:
            return _given_up(first, source, Problem(shown, describe_fault(error), internal=True))
        if changed.text == text.text:
            break
        after = check_text(changed, shown, path, settings)
        if after.problems and not file.problems:
            reason = f"a repair was taken back, as the repaired file fails: {after.problems[0].message}"
            return _given_up(first, source, Problem(shown, reason, internal=True))
        file, text = after, changed
    else:
        reason = f"the repairs do not come to an end in {ROUNDS} rounds; nothing was changed"
        return _given_up(first, source, Problem(shown, reason, internal=True))
    if text is not source:
        before = Counter(finding.code for finding in first.findings)
        file.fixed = before - Counter(finding.code for finding in file.findings)
    return Repaired(file, text)


def _given_up(first: CheckedFile, source: SourceText, problem: Problem) -> Repaired:
    first.problems.append(problem)
    return Repaired(first, source)


class Protection:
    """Which edits would change a line that a noqa of ours speaks for: the user wants it as it is."""

    def __init__(self, text: str) -> None:
        self._suppressions = Suppressions(text)
        self._codes: Set[str] = known_codes() - {UNUSED_SUPPRESSION}

    def forbids(self, edit: Edit) -> bool:
        return any(self._suppressions.covers(code, line) for line in touched(edit) for code in self._codes)
