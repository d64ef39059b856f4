"""`read_module`: text in, `Module` out, or a `ReadError` that says where and why.

A file that CPython accepts and the concrete parser does not (or the reverse) is reported like any other syntax error.
"""

from __future__ import annotations

import ast
import gc
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import libcst as cst

from accumlint.reading.contracts import LossContract
from accumlint.reading.depth import check_depth
from accumlint.reading.lower import lower_module
from accumlint.reading.program import Module
from accumlint.reading.spans import deep_recursion
from accumlint.reading.table import TooDeepError

TOO_DEEP = "nested too deeply"
NEWLINE = re.compile(r"\r\n?|\n")

_INNER_POSITION = re.compile(r"error at (\d+):(\d+)")
_PYTHON_2 = re.compile(
    r"""^[ \t]*(?:
        print[ \t]+(?:["'\w%`]|>>)          # print x    print "x"    print >>f, x
      | exec[ \t]+["'\w]                    # exec code
      | except[ \t]+[\w.() ,]+,[ \t]*\w+[ \t]*:   # except Error, error:
      | raise[ \t]+[\w.]+,[ \t]*\S          # raise Error, "text"
    )""",
    re.VERBOSE,
)


class ReadError(Exception):
    """A text that cannot be read. `line` counts from 1, `column` from 0 in code points."""

    def __init__(self, message: str, line: int = 1, column: int = 0) -> None:
        super().__init__(f"{line}:{column}: {message}")
        self.message = message
        self.line = line
        self.column = column


def read_module(
    text: str, filename: str, name: str = "", *, first_id: int = 0, contracts: tuple[LossContract, ...] = ()
) -> Module:
    """Parse and lower one file. Raises `ReadError`; positions are not computed here (see `spans`).

    Node ids count up from `first_id`, so that ids of several modules can be told apart.
    """
    lines = NEWLINE.split(text)
    if "\0" in text:
        before = NEWLINE.split(text[: text.index("\0")])
        raise ReadError("contains a null byte", len(before), len(before[-1]))
    try:
        check_depth(text)
        with _no_collection(), deep_recursion():
            body, syntax = lower_module(_parse(text, lines), text, first_id)
    except TooDeepError:
        raise ReadError(TOO_DEEP) from None
    except RecursionError:
        raise ReadError(TOO_DEEP) from None
    except SyntaxError as refused:
        raise _refused(lines, refused) from None
    return Module(filename, body, syntax, name, lines, contracts)


@contextmanager
def _no_collection() -> Iterator[None]:
    """Trees are all that is made here and none is dropped: searching them for garbage costs a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _parse(text: str, lines: list[str]) -> cst.Module:
    try:
        return cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise _syntax_error(text, lines, error) from None
    except UnicodeError as error:
        raise ReadError(f"not encodable text: {error.reason}" if hasattr(error, "reason") else str(error)) from None
    except (RecursionError, MemoryError):
        raise ReadError(TOO_DEEP) from None
    except Exception as error:
        raise ReadError(f"the parser failed: {type(error).__name__}: {error}") from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":  # what a panic inside the native parser becomes
            raise
        raise ReadError(f"the parser failed: {error}") from error


def _syntax_error(text: str, lines: list[str], error: cst.ParserSyntaxError) -> ReadError:
    """The best message for a refused text: CPython's if it refuses it too, else the concrete parser's."""
    if "too many indentation levels" in error.message:
        return ReadError(TOO_DEEP, error.raw_line)
    inner = _INNER_POSITION.search(error.message)
    line, column = (int(inner[1]), max(int(inner[2]) - 1, 0)) if inner else (error.raw_line, error.raw_column)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except SyntaxError as refused:
        return _refused(lines, refused, line, column)
    except (RecursionError, MemoryError):
        return ReadError(TOO_DEEP, line)
    except ValueError as refused:
        return ReadError(str(refused), line, column)
    return _located(_libcst_message(error), lines, line, column)


def _libcst_message(error: cst.ParserSyntaxError) -> str:
    first = error.message.partition("\n")[0]
    reason = first.removeprefix("tokenizer error: ")
    return f"libcst cannot parse this, though Python can{f': {reason}' if reason != first else ''}"


def _refused(lines: list[str], error: SyntaxError, line: int = 1, column: int = 0) -> ReadError:
    if error.lineno:
        line, column = error.lineno, max((error.offset or 1) - 1, 0)
    return _located(error.msg, lines, line, column)


def _located(message: str, lines: list[str], line: int, column: int) -> ReadError:
    line = min(max(line, 1), len(lines))
    if message.startswith("Missing parentheses in call to") or _PYTHON_2.match(lines[line - 1]):
        message = f"looks like Python 2: {message}"
    return ReadError(message, line, min(column, len(lines[line - 1])))
