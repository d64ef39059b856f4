"""The comments of a text, and which physical lines belong together, read off Python's tokenizer."""

from __future__ import annotations

import re
import tokenize
from collections.abc import Callable
from dataclasses import dataclass

from accumlint.source.text import split_lines

_COMMENT_AT_LINE = re.compile(r"#.*")


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment from its `#` to the end of its line. `alone`: nothing but space stands before it."""

    line: int
    column: int
    text: str
    alone: bool


class Comments:
    """The comments of one text.

    Where the tokenizer gives up, the rest of the text is read line by line: a comment is then whatever follows a `#`.
    """

    def __init__(self, text: str) -> None:
        self.lines = split_lines(text)
        self.found: list[Comment] = []
        self._joined: dict[int, tuple[int, int]] = {}
        self._statements: dict[int, tuple[int, int]] = {}
        try:
            self._read_tokens()
        except (tokenize.TokenError, SyntaxError):
            self._read_rest()

    def joined_lines(self, line: int) -> tuple[int, int]:
        """First and last line of those joined with this one by a string or a backslash: where flake8 looks."""
        return self._joined.get(line, (line, line))

    def statement_lines(self, line: int) -> tuple[int, int]:
        """First and last line of the logical line (simple statement, or header of a compound one)."""
        return self._statements.get(line, (line, line))

    def is_certain(self, line: int) -> bool:
        """Whether the tokenizer got as far as this line."""
        return line in self._joined

    def _read_tokens(self) -> None:
        joined = _Range(self._joined)
        statement = _Range(self._statements)
        for token in tokenize.generate_tokens(_readline(self.lines)):
            if token.type in (tokenize.ENDMARKER, tokenize.INDENT, tokenize.DEDENT):
                continue
            if token.type == tokenize.COMMENT:
                line, column = token.start
                alone = not self.lines[line - 1][:column].strip()
                self.found.append(Comment(line, column, token.string, alone))
            joined.extend(token)
            statement.extend(token)
            if token.type in (tokenize.NL, tokenize.NEWLINE):
                joined.close()
            # Inside brackets an NL ends no statement; outside, it ends a blank or comment line, which is its own.
            if token.type == tokenize.NEWLINE or (token.type == tokenize.NL and statement.is_only_comment):
                statement.close()

    def _read_rest(self) -> None:
        """Take the lines after the last whole statement one by one."""
        done = max(self._statements, default=0)
        self.found = [comment for comment in self.found if comment.line <= done]
        self._joined = {line: lines for line, lines in self._joined.items() if line <= done}
        for number in range(done + 1, len(self.lines) + 1):
            match = _COMMENT_AT_LINE.search(self.lines[number - 1])
            if match:
                alone = not self.lines[number - 1][: match.start()].strip()
                self.found.append(Comment(number, match.start(), match.group(), alone))


class _Range:
    """The lines from the first to the last token since the last `close`."""

    def __init__(self, ranges: dict[int, tuple[int, int]]) -> None:
        self._ranges = ranges
        self._reset()

    def _reset(self) -> None:
        self._first = 0
        self._last = 0
        self.is_only_comment = True

    def extend(self, token: tokenize.TokenInfo) -> None:
        self._first = self._first or token.start[0]
        self._last = max(self._last, token.end[0])
        if token.type not in (tokenize.COMMENT, tokenize.NL):
            self.is_only_comment = False

    def close(self) -> None:
        for line in range(self._first, self._last + 1):
            self._ranges[line] = (self._first, self._last)
        self._reset()


def _readline(lines: list[str]) -> Callable[[], str]:
    """A `readline` that ends every line alike: the tokenizer knows CR only in some versions of Python."""
    rest = iter(lines)
    return lambda: f"{line}\n" if (line := next(rest, None)) is not None else ""
