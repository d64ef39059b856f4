"""Code on one line, its comments dropped."""

from __future__ import annotations

import re

_BLANK = re.compile(r"\s+")


def one_line(code: str) -> str:
    """The code of a node without line breaks and comments."""
    if "\n" not in code and "\r" not in code and "#" not in code:
        return code.strip()
    return _join(_tokens(code))


def _join(tokens: list[str]) -> str:
    joined = ""
    for token in tokens:
        if token == " " and (not joined or joined[-1] in "([{ "):
            continue
        if token in (")", "]", "}") and joined.endswith(" "):
            joined = joined[:-1]
        joined += token
    return joined.strip()


_TOKEN = re.compile(
    r"""(?P<string>[A-Za-z]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|\'\'\'(?:\\.|[^\\])*?\'\'\'
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<comment>\#[^\r\n]*)
      |(?P<blank>(?:\s|\\\r?\n)+)
      |(?P<word>\w+)
      |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(code: str) -> list[str]:
    """Tokens fine enough to tell comments and line breaks from the inside of strings."""
    tokens: list[str] = []
    for found in _TOKEN.finditer(code):
        if found.lastgroup == "string":
            tokens.append(_BLANK.sub(" ", found[0]) if "\n" in found[0] else found[0])
        elif found.lastgroup == "blank":
            tokens.append(" ")
        elif found.lastgroup != "comment":
            tokens.append(found[0])
    return tokens
