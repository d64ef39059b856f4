"""A guard before parsing: nesting that the native parser would answer with a crash or with exponential time.

libcst's parser recurses natively (some thousand levels overflow the stack and kill the process), takes quadratic time
for long chains and exponential time for nested `case` patterns. So the text is scanned first. A file with a suspicious
spot (a long statement, many brackets in brackets, hundreds of `elif`) is parsed by CPython, which has limits of its
own, and its depth is measured; all others cost the scan only.
"""

from __future__ import annotations

import ast
import re
import warnings
from dataclasses import dataclass

from accumlint.reading.table import MAX_DEPTH, TooDeepError


@dataclass(frozen=True, slots=True)
class Limits:
    """`statement`: characters of one logical line, plain strings and comments aside; `brackets`: open at once."""

    statement: int
    brackets: int
    branches: int


SUSPICIOUS = Limits(statement=1_000, brackets=40, branches=150)
"""Beyond these CPython is asked; libcst takes some 0.2 s for the worst below."""

DANGEROUS = Limits(statement=3_000, brackets=200, branches=1_000)
"""Beyond these libcst is not tried on what CPython refuses (a newer syntax than that of the running Python, say)."""

PATTERN_BRACKETS = 6
CHAIN = 10
PLAIN_PREFIXES = frozenset("bBrRuU")

_LANDMARK = re.compile(
    r"""
    (?P<comment>\#[^\r\n]*)
  | (?P<string>(?P<prefix>\b[A-Za-z]{1,2})?(?:
        \"\"\"(?:[^"\\]|\\.|"(?!""))*(?:\"\"\"|\Z)
      | '''(?:[^'\\]|\\.|'(?!''))*(?:'''|\Z)
      | "(?:[^"\\\r\n]|\\(?:\r\n|.))*"?
      | '(?:[^'\\\r\n]|\\(?:\r\n|.))*'?))
  | (?P<open>[(\[{])
  | (?P<close>[)\]}])
  | (?P<escaped>\\(?:\r\n?|\n))
  | (?P<newline>\r\n?|\n)
    """,
    re.VERBOSE | re.DOTALL,
)
_CASE = re.compile(r"\s*case\b")


def check_depth(text: str) -> None:
    """Raise `TooDeepError` if the native parser should not see `text`; `SyntaxError` if nobody can tell."""
    if not _exceeds(text, SUSPICIOUS):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except SyntaxError as error:
        if "too many" in error.msg or "too deeply" in error.msg:
            raise TooDeepError from None
        if _exceeds(text, DANGEROUS):
            raise
    except (RecursionError, MemoryError):
        raise TooDeepError from None
    except ValueError:
        return  # the parser reports it
    else:
        if _depth(tree) > MAX_DEPTH:
            raise TooDeepError


def _exceeds(text: str, limits: Limits) -> bool:
    """Raises `TooDeepError` at once for a `case` pattern that would take exponential time."""
    if text.count("elif") > limits.branches:
        return True
    depth = plain = start = 0
    for found in _LANDMARK.finditer(text):
        kind = found.lastgroup
        if kind == "newline":
            if depth == 0:
                if found.start() - start - plain > limits.statement:
                    return True
                start, plain = found.end(), 0
        elif kind == "open":
            depth += 1
            if depth > limits.brackets:
                return True
            if depth == PATTERN_BRACKETS + 1 and _CASE.match(text, start):
                raise TooDeepError
        elif kind == "close":
            depth -= depth > 0
        elif kind == "string":
            plain += _plain_size(found)
        elif kind == "comment":
            plain += found.end() - found.start()
    return len(text) - start - plain > limits.statement


def _plain_size(string: re.Match[str]) -> int:
    """What a string takes off its statement: nothing if code is inside, and each piece of a concatenation counts."""
    literal = string[0]
    may_hold_code = "{" in literal and not PLAIN_PREFIXES.issuperset(string["prefix"] or "")
    return 0 if may_hold_code else len(literal) - 8


def _depth(tree: ast.AST) -> int:
    """Levels of the syntax tree; a chain of `and` or `or` counts by its length, for libcst nests it."""
    depth = longest = 0
    level = [tree]
    while level:
        depth += 1
        longest = max([longest, *[len(node.values) // CHAIN for node in level if isinstance(node, ast.BoolOp)]])
        level = [child for node in level for child in ast.iter_child_nodes(node)]
    return depth + longest
