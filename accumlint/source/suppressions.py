"""Comments that suppress findings: which codes on which lines, which of them were used, and how to add them.

The meaning is flake8's: `# noqa` suppresses everything, `# noqa: ACC101,E501` what begins with one of the codes, in
any case of letters; a form that flake8 reads as blanket (`# noqa : ACC101`) is blanket here. Wider than flake8 in one
point: a comment on any line of a statement counts for all of its lines, inside brackets too. Narrower in another:
only comments count, not strings. Of a whole file, `# flake8: noqa` and `# accumlint: noqa` speak, each on a line of
its own, with codes or without.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

from accumlint.source.comments import Comments
from accumlint.source.text import split_keeping_ends

OWN_PREFIX = "ACC"
UNUSED_CODE = "ACC901"

_CODES = r"[A-Z]+[0-9]+(?:[,\s]*[A-Z]+[0-9]+)*"
_INLINE = re.compile(rf"# noqa(?::\s?(?P<codes>{_CODES}))?", re.IGNORECASE)
_WHOLE_FILE = re.compile(rf"# (?:flake8|accumlint)[:=]\s*noqa(?P<colon>\s*:\s*(?P<codes>{_CODES})?)?", re.IGNORECASE)
# Cheap questions to the raw text, asked before it is tokenized; a yes may be wrong, a no is not.
_MAY_BE_WHOLE_FILE = re.compile(r"(?:flake8|accumlint)[:=]\s*noqa", re.IGNORECASE)
_MAY_LIST_CODES = re.compile(rf"noqa\s*:[^\r\n]*{OWN_PREFIX}[0-9]", re.IGNORECASE)
_CODE = re.compile(r"[^,\s]+")


@dataclass(frozen=True, slots=True)
class LineEdit:
    """Replace a range of the text, as a `Span` gives it: lines from 1, columns from 0 in code points, end exclusive."""

    line: int
    column: int
    end_line: int
    end_column: int
    content: str


@dataclass(frozen=True, slots=True)
class Directive:
    """One `noqa`. Its text is `column` to `end_column` of `line`; it speaks for the lines `first` to `last`."""

    line: int
    column: int
    end_column: int
    codes: tuple[str, ...] | None  # upper case; None suppresses everything
    first: int
    last: int
    whole_file: bool = False


@dataclass(frozen=True, slots=True)
class Unused:
    """Codes of ours in one directive that suppressed nothing. The columns are those of the directive's text."""

    line: int
    column: int
    end_column: int
    codes: tuple[str, ...]


class Suppressions:
    """The directives of one text, and a record of those that were used."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._used: set[tuple[int, str]] = set()

    def covers(self, code: str, line: int) -> bool:
        """Whether a finding is suppressed. Every directive that does it is recorded as used."""
        covered = False
        for index in (*self._whole_file, *self._by_line.get(line, ())):
            codes = self._directives[index].codes
            for entry in ("",) if codes is None else codes:
                if code.upper().startswith(entry):
                    self._used.add((index, entry))
                    covered = True
        return covered

    @property
    def skips_file(self) -> bool:
        """Whether a blanket comment suppresses the whole file, so that it need not be checked."""
        if not self._may_hold_any or not _MAY_BE_WHOLE_FILE.search(self._text):
            return False
        return any(self._directives[index].codes is None for index in self._whole_file)

    @cached_property
    def _directives(self) -> list[Directive]:
        """Found when first asked for: most files have no finding to ask about, and tokenizing is slow."""
        return list(_find_directives(Comments(self._text))) if self._may_hold_any else []

    @cached_property
    def _may_hold_any(self) -> bool:
        """Looked for in lower case: a search that ignores case is fifty times slower."""
        return "noqa" in self._text.lower()

    @cached_property
    def _whole_file(self) -> list[int]:
        return [index for index, directive in enumerate(self._directives) if directive.whole_file]

    @cached_property
    def _by_line(self) -> dict[int, list[int]]:
        by_line: dict[int, list[int]] = {}
        for index, directive in enumerate(self._directives):
            if not directive.whole_file:
                for line in range(directive.first, directive.last + 1):
                    by_line.setdefault(line, []).append(index)
        return by_line

    def unused(self, active: Collection[str], known: Collection[str] | None = None) -> list[Unused]:
        """Codes of ours that suppressed nothing; to be asked when all findings have gone through `covers`.

        A code counts only if a rule that it stands for was `active`, or, where `known` lists every rule, if it stands
        for none. Blanket directives and other tools' codes never count. ACC901 in a directive, or on the whole file,
        keeps what it stands beside.
        """
        if not _MAY_LIST_CODES.search(self._text) or self.skips_file:
            return []
        if any(_keeps_itself(self._directives[index]) for index in self._whole_file):
            return []
        found = []
        for index, directive in enumerate(self._directives):
            if directive.codes is None or _keeps_itself(directive):
                continue
            codes = [code for code in directive.codes if (index, code) not in self._used and _is_own(code)]
            codes = [code for code in codes if _stands_for(code, active) or (known and not _stands_for(code, known))]
            if codes:
                found.append(Unused(directive.line, directive.column, directive.end_column, tuple(codes)))
        return found

    def removal(self, unused: Unused) -> LineEdit:
        """The edit that takes unused codes out of their comment, or the comment away where nothing is left of it."""
        line = split_keeping_ends(self._text)[unused.line - 1]
        body = line.rstrip("\r\n")
        directive = body[unused.column : unused.end_column]
        kept = _without(directive, unused.codes)
        if kept:
            return LineEdit(unused.line, unused.column, unused.line, unused.end_column, kept)
        before = body[: unused.column].rstrip(" \t")
        after = body[unused.end_column :].lstrip(" \t,;:-")
        if after.strip():
            lead = "" if after.startswith("#") else "# "
            return LineEdit(unused.line, unused.column, unused.line, len(body) - len(after), lead)
        if before or len(line) == len(body):
            return LineEdit(unused.line, len(before), unused.line, len(body), "")
        return LineEdit(unused.line, 0, unused.line + 1, 0, "")  # a comment alone on its line takes the line with it


def add_noqa(text: str, codes_by_line: Mapping[int, Iterable[str]]) -> str:
    """Suppress codes on lines (from 1) where they are not yet: existing comments are extended, others appended.

    A comment goes where flake8 looks for it: at the end of the line, or, if the line goes on in a string or after a
    backslash, where that ends. A part of the text that cannot be tokenized is left alone.
    """
    comments = Comments(text)
    present = Suppressions(text)
    directives = [directive for directive in _find_directives(comments) if not directive.whole_file]
    lines = split_keeping_ends(text)
    additions: dict[int, list[str]] = {}
    for line in sorted(codes_by_line):
        _, end = comments.joined_lines(line)
        missing = [code for code in dict.fromkeys(codes_by_line[line]) if not present.covers(code, line)]
        if comments.is_certain(line) and end <= len(lines):
            wanted = additions.setdefault(end, [])
            wanted += [code for code in missing if code not in wanted]
    for end, codes in additions.items():
        if codes:
            _add_codes(lines, comments, directives, end, codes)
    return "".join(lines)


def _add_codes(lines: list[str], comments: Comments, directives: list[Directive], end: int, codes: list[str]) -> None:
    """Extend the first comment with codes of the joined lines that end at `end`, or append one there."""
    first, _ = comments.joined_lines(end)
    for directive in directives:
        if first <= directive.line <= end and directive.codes is not None:
            line = lines[directive.line - 1]
            divider = ", " if re.search(r", ", line[directive.column : directive.end_column]) else ","
            addition = divider + divider.join(codes)
            lines[directive.line - 1] = line[: directive.end_column] + addition + line[directive.end_column :]
            return
    line = lines[end - 1]
    body = line.rstrip("\r\n")
    lines[end - 1] = f"{body.rstrip(' ' + chr(9))}  # noqa: {','.join(codes)}{line[len(body) :]}"


def _find_directives(comments: Comments) -> Iterable[Directive]:
    for comment in comments.found:
        whole = _WHOLE_FILE.match(comment.text) if comment.alone else None
        if whole:
            # A colon with no code that can be read is a mistake; taking it for a blanket one would hide everything.
            if whole["codes"] or not whole["colon"]:
                yield _directive(comment.line, comment.column, whole, (1, len(comments.lines)), True)
            continue
        for match in _INLINE.finditer(comment.text):
            yield _directive(comment.line, comment.column, match, comments.statement_lines(comment.line), False)


def _directive(
    line: int, column: int, match: re.Match[str], speaks_for: tuple[int, int], whole_file: bool
) -> Directive:
    codes = match["codes"]
    upper = tuple(code.upper() for code in _CODE.findall(codes)) if codes else None
    return Directive(line, column + match.start(), column + match.end(), upper, *speaks_for, whole_file)


def _keeps_itself(directive: Directive) -> bool:
    return directive.codes is not None and any(UNUSED_CODE.startswith(code) for code in directive.codes)


def _is_own(code: str) -> bool:
    return code.startswith(OWN_PREFIX) and code[len(OWN_PREFIX) :].isdigit()


def _stands_for(entry: str, codes: Collection[str]) -> bool:
    return any(code.startswith(entry) for code in codes)


def _without(directive: str, codes: Collection[str]) -> str:
    """The directive's text without some codes, "" if none is left; separators and spelling of the others are kept."""
    head, _, listed = directive.rpartition(":")
    entries = list(_CODE.finditer(listed))
    kept = [index for index, entry in enumerate(entries) if entry.group().upper() not in codes]
    if not kept:
        return ""
    lead = listed[: entries[0].start()]
    text = entries[kept[0]].group()
    for index in kept[1:]:
        text += listed[entries[index - 1].end() : entries[index].end()]
    return f"{head}:{lead}{text}"
