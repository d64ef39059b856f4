"""Where the values of a JSON text stand, so that one of them can be replaced and every other byte stays.

The text must be valid JSON (`json.loads` has accepted it); nothing here checks it again.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_SPACE = re.compile(r"[ \t\n\r]*")
_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SCALAR = re.compile(r"[^\s,\]}]+")
_STRUCTURE = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"|[\[\]{}]', re.DOTALL)
# An escape of a character above U+007F that was not itself escaped.
_ESCAPED = re.compile(r"(?<!\\)(?:\\\\)*\\u(?!00[0-7])[0-9a-fA-F]{4}")


@dataclass(frozen=True, slots=True)
class JsonSpan:
    """A value: `text[start:end]`."""

    start: int
    end: int


def root_span(text: str) -> JsonSpan:
    """The span of the document's value."""
    start = _skip_space(text, 0)
    return JsonSpan(start, _value_end(text, start))


def member_spans(text: str, value: JsonSpan) -> dict[str, JsonSpan]:
    """The members of an object; of a key that occurs twice the last, as `json.loads` has it."""
    members = {}
    at = _skip_space(text, value.start + 1)
    while text[at] != "}":
        end = _value_end(text, at)
        key = json.loads(text[at:end])
        at = _skip_space(text, _skip_space(text, end) + 1)
        members[key] = JsonSpan(at, _value_end(text, at))
        at = _next(text, members[key].end)
    return members


def element_spans(text: str, value: JsonSpan) -> list[JsonSpan]:
    """The elements of an array."""
    elements = []
    at = _skip_space(text, value.start + 1)
    while text[at] != "]":
        elements.append(JsonSpan(at, _value_end(text, at)))
        at = _next(text, elements[-1].end)
    return elements


def escapes_non_ascii(text: str) -> bool:
    """Whether the writer of this document escaped characters above U+007F; false where it had none to write."""
    return text.isascii() and _ESCAPED.search(text) is not None


def _skip_space(text: str, at: int) -> int:
    match = _SPACE.match(text, at)
    return match.end() if match else at


def _next(text: str, at: int) -> int:
    """From the end of a value to the next one, or to the closing bracket."""
    at = _skip_space(text, at)
    return _skip_space(text, at + 1) if text[at] == "," else at


def _value_end(text: str, start: int) -> int:
    if text[start] in "[{":
        return _container_end(text, start)
    match = (_STRING if text[start] == '"' else _SCALAR).match(text, start)
    return match.end() if match else start


def _container_end(text: str, start: int) -> int:
    """The end of an array or object; strings are passed over whole, so that depth is all there is to count."""
    depth = 0
    for match in _STRUCTURE.finditer(text, start):
        token = match.group()
        if token[0] == '"':
            continue
        depth += 1 if token in "[{" else -1
        if depth == 0:
            return match.end()
    return len(text)
