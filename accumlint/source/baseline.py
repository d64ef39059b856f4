"""Known findings, kept by content and not by line number, so that edits elsewhere in a file do not bring them back."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

from accumlint.source.text import SourceError, read_file
from accumlint.source.write import write_atomically

VERSION = 1
_LONGEST = 200


class Place(NamedTuple):
    """A finding as the baseline sees it. `path` is relative to the project, `line` counts from 1 in `lines`."""

    path: str
    code: str
    line: int
    lines: Sequence[str]  # `SourceText.display_lines`


@dataclass(frozen=True, slots=True, order=True)
class Key:
    """What a finding is known by: its line and the nearest lines before and after that are not blank, normalised."""

    path: str
    code: str
    source: str
    before: str
    after: str


def key_of(place: Place) -> Key:
    """The key of a finding. Equal findings of one file have equal keys; they are told apart by their number."""
    path = place.path.replace("\\", "/").removeprefix("./")
    above = (place.lines[index] for index in range(min(place.line - 1, len(place.lines)) - 1, -1, -1))
    below = (place.lines[index] for index in range(place.line, len(place.lines)))
    own = place.lines[place.line - 1] if 1 <= place.line <= len(place.lines) else ""
    return Key(path, place.code, _normalise(own), _nearest(above), _nearest(below))


def fingerprints(places: Iterable[Place]) -> list[str]:
    """A stable hash (32 hex digits) for each finding: its key and the how-manieth with this key it is."""
    seen: Counter[Key] = Counter()
    found = []
    for key in map(key_of, places):
        content = json.dumps([*astuple(key), seen[key]])
        found.append(hashlib.sha256(content.encode("utf-8", "surrogatepass")).hexdigest()[:32])
        seen[key] += 1
    return found


class Baseline:
    """The findings that were there when the baseline was written."""

    def __init__(self, keys: Iterable[Key] = ()) -> None:
        self.keys = sorted(keys)

    @classmethod
    def of(cls, places: Iterable[Place]) -> Baseline:
        """The baseline of the present findings."""
        return cls(map(key_of, places))

    @classmethod
    def read(cls, path: str | Path) -> Baseline:
        """Read a baseline. Raises SourceError if it is none, or of a newer version."""
        content = _parse(read_file(path))
        version = content.get("version")
        if not isinstance(version, int) or version < 1:
            raise SourceError("this file is no baseline: it has no version")
        if version > VERSION:
            raise SourceError(f"the baseline is of version {version}; this release reads versions up to {VERSION}")
        entries = content.get("findings")
        if not isinstance(entries, list):
            raise SourceError("this file is no baseline: it has no list of findings")
        return cls(_key(entry, number) for number, entry in enumerate(entries, 1))

    def write(self, path: str | Path) -> bool:
        """Write the baseline, sorted, one finding a line; returns whether the file changed. Raises WriteError."""
        rows = [json.dumps(_entry(key)) for key in self.keys]
        listed = ",\n    ".join(rows)
        findings = f"[\n    {listed}\n  ]" if rows else "[]"
        text = f'{{\n  "tool": "accumlint",\n  "version": {VERSION},\n  "findings": {findings}\n}}\n'
        return write_atomically(path, text.encode("ascii"))

    def filter(self, places: Sequence[Place]) -> list[bool]:
        """For each finding whether it is known. An entry answers for one finding only.

        An exact match goes first; then one whose line is the same and one neighbour changed, so that an edit beside a
        known finding does not make it new.
        """
        return _known([key_of(place) for place in places], self.keys)

    def stale(self, places: Sequence[Place]) -> list[Key]:
        """Entries that no present finding answers to: repaired since, and to be dropped."""
        found = _known(self.keys, [key_of(place) for place in places])
        return [key for key, is_there in zip(self.keys, found, strict=True) if not is_there]


_TIERS: tuple[Callable[[Key], tuple[str, ...]], ...] = (
    lambda key: (key.path, key.code, key.source, key.before, key.after),
    lambda key: (key.path, key.code, key.source, "before", key.before),
    lambda key: (key.path, key.code, key.source, "after", key.after),
)


def _known(keys: Sequence[Key], entries: Sequence[Key]) -> list[bool]:
    left = Counter(entries)
    known = [False] * len(keys)
    for like in _TIERS:
        _match(keys, known, left, like)
    return known


def _match(keys: Sequence[Key], known: list[bool], left: Counter[Key], like: Callable[[Key], tuple[str, ...]]) -> None:
    """Give each finding that is not known yet an entry that is left over and alike, and use the entry up."""
    pool: dict[tuple[str, ...], list[Key]] = {}
    for entry in left.elements():
        pool.setdefault(like(entry), []).append(entry)
    for index, key in enumerate(keys):
        if not known[index] and pool.get(like(key)):
            left[pool[like(key)].pop()] -= 1
            known[index] = True


def _parse(data: bytes) -> dict[str, object]:
    try:
        content = json.loads(data)
    except json.JSONDecodeError as error:
        raise SourceError(f"the baseline is not JSON: {error.msg}", error.lineno, error.colno - 1) from None
    except (RecursionError, ValueError):
        raise SourceError("the baseline is not JSON in UTF-8", 1) from None
    if not isinstance(content, dict):
        raise SourceError("this file is no baseline: it is not an object", 1)
    return content


def _entry(key: Key) -> dict[str, str]:
    return dict(zip(("path", "code", "source", "before", "after"), astuple(key), strict=True))


def _key(entry: object, number: int) -> Key:
    values = [entry.get(name) for name in _entry(_EMPTY)] if isinstance(entry, dict) else []
    texts = [value for value in values if isinstance(value, str)]
    if len(texts) != len(astuple(_EMPTY)):
        raise SourceError(f"finding {number} of the baseline lacks a field")
    return Key(*texts)


_EMPTY = Key("", "", "", "", "")


def _nearest(lines: Iterable[str]) -> str:
    return next((text for text in map(_normalise, lines) if text), "")


def _normalise(line: str) -> str:
    """Indentation and spacing do not count; a line too long to be read is kept as its hash."""
    text = " ".join(line.split())
    if len(text) <= _LONGEST:
        return text
    return "sha256:" + hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
