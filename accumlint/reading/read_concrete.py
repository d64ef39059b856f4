"""Reading by libcst: for what Python's own `ast` refuses (the syntax of a newer Python) or reads in another way.

A file that CPython accepts and the concrete parser does not (or the reverse) is reported like any other syntax error.
"""

from __future__ import annotations

import ast
import re
import warnings

import libcst as cst

from accumlint.reading import ir
from accumlint.reading.depth import check_depth
from accumlint.reading.errors import TOO_DEEP, ReadError
from accumlint.reading.lower import lower_module
from accumlint.reading.recursion import deep_recursion, no_collection
from accumlint.reading.syntax import ConcreteSyntax
from accumlint.reading.table import TooDeepError

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


def read_concrete(text: str, lines: list[str], first: ir.NodeId) -> tuple[tuple[ir.Statement, ...], ConcreteSyntax]:
    """Parse and lower a text; `lines` are its lines. Raises `ReadError`."""
    try:
        check_depth(text)
        with no_collection(), deep_recursion():
            return lower_module(_parse(text, lines), text, first)
    except TooDeepError:
        raise ReadError(TOO_DEEP) from None
    except RecursionError:
        raise ReadError(TOO_DEEP) from None
    except SyntaxError as refused:
        raise _refused(lines, refused) from None


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
