"""How a command ends: three exit codes, and the one exception for what the user has to put right."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from difflib import get_close_matches

CLEAN = 0
FINDINGS = 1
ERROR = 2


class UsageError(Exception):
    """Something that the user has to put right; printed as one line, exit code 2."""


def debugging() -> bool:
    return os.environ.get("ACCUMLINT_DEBUG", "") not in ("", "0")


def describe_fault(error: BaseException) -> str:
    """One line for a fault of our own; with ACCUMLINT_DEBUG=1 the traceback goes to stderr as well."""
    if debugging():
        traceback.print_exception(error, file=sys.stderr)
    what = f"{type(error).__name__}: {error}".splitlines()[0] if str(error) else type(error).__name__
    return f"{what}; please report this, with the output of ACCUMLINT_DEBUG=1"


def nearest(word: str, known: Iterable[str]) -> str:
    """`; did you mean "select"?`, or nothing."""
    close = get_close_matches(word, list(known), n=1, cutoff=0.5)
    return f'; did you mean "{close[0]}"?' if close else ""
