"""Results of earlier runs, kept by content: what was checked with the same tool and settings is not checked again.

A result is found by the file's name and bytes, and counts as long as all that the check looked at in the file's
project is as it was. A file that was not touched since is not read for that (`stamps`). There is one file of JSON for
each tool and settings. A run reads it once and replaces it whole; of two runs at once the later adds to what the
earlier wrote. A cache that cannot be read counts as empty, and one that cannot be written is left alone. Repairs are
never applied from it: `--fix` and `--diff` check anew.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from accumlint.cli.inputs import Input
from accumlint.cli.processing import Outcome
from accumlint.cli.settings import Settings
from accumlint.cli.stamps import Stamps
from accumlint.cli.stored import CorruptError, Result, dump, load
from accumlint.reading.footprint import ABSENT, digest, names_in, names_state, root_of
from accumlint.report.model import CheckedFile, Trust
from accumlint.source.notebook import NotPythonError, read_bytes
from accumlint.source.text import SourceError, read_file
from accumlint.source.write import WriteError, write_atomically

FORMAT = 2
KEPT_DAYS = 30
TAG = "CACHEDIR.TAG"
SIGNATURE = "Signature: 8a477f597d28d172789f06886806bc55"
_DAY = 86_400


@dataclass(slots=True)
class Entry:
    """A stored result. `root`, `folders` and `files` number the places that the check looked at; `state` is theirs."""

    day: int
    root: int
    folders: list[int]
    files: list[int]
    state: str
    result: Any


class Cache:
    """The results for one tool and settings. `look_up` before a check, `keep` after it, `save` at the end."""

    def __init__(self, folder: Path, settings: Settings, name: str = "") -> None:
        """`name` is that of the file; it tells tools and settings apart."""
        self._folder = folder
        self._path = folder / (name or f"{digest(_identity(settings).encode('utf-8', 'surrogateescape'))}.json")
        self._trust = Trust(settings.safe_codes, settings.unsafe_codes)
        self._today = int(time.time() // _DAY)
        self._places: dict[str, int] = {}
        self._names: list[str] = []
        self._entries: dict[str, Entry] = {}
        self._used: dict[str, Entry] = {}
        self._states: dict[tuple[str, str], str] = {}
        self._stamps = Stamps(self._today)
        self._changed = False
        self._read()

    def look_up(self, found: Input) -> Outcome | None:
        """The outcome of an earlier check of the same bytes in the same surroundings, if there is one."""
        if found.is_stdin:
            return None
        content = self._stamps.digest_of(os.path.abspath(found.path))
        if content == ABSENT:
            return None
        key = found.key(content)
        entry = self._entries.get(key)
        if entry is None or not self._is_current(entry, found.path):
            return None
        try:
            outcome = self._outcome(found, content, entry.result)
        except (CorruptError, SourceError, NotPythonError):
            return None
        if entry.day + 1 < self._today:
            entry.day = self._today
            self._changed = True
        self._used[key] = entry
        return outcome

    def _outcome(self, found: Input, content: str, stored: Any) -> Outcome:
        """Raises CorruptError also for a file that has changed since it was looked at."""
        if stored is None:
            return Outcome(CheckedFile(found.shown, trust=self._trust))
        result = load(stored)
        source = None
        if not result.is_silent:
            data = read_file(found.path)
            if digest(data) != content:
                raise CorruptError(f"{found.shown} is being written")
            source = read_bytes(str(found.path), data)
        file = CheckedFile(
            found.shown,
            source,
            findings=list(result.findings),
            loops=list(result.loops),
            problems=list(result.problems),
            suppressed=result.suppressed,
            trust=self._trust,
        )
        return Outcome(file)

    def keep(self, outcome: Outcome) -> None:
        """Keep the outcome of a check; one that tells of a fault of the tool itself is not kept."""
        file, footprint = outcome.file, outcome.footprint
        if not outcome.key or file is None or footprint is None or any(each.internal for each in file.problems):
            return
        result = Result(tuple(file.findings), tuple(file.loops), tuple(file.problems), file.suppressed)
        looked_at = [*footprint.folders.values(), *footprint.files.values()]
        self._used[outcome.key] = Entry(
            self._today,
            -1 if footprint.root is None else self._number(footprint.root),
            [self._number(folder) for folder in footprint.folders],
            [self._number(file) for file in footprint.files],
            _combined(looked_at),
            None if result == Result() else dump(result),
        )
        self._changed = True

    def save(self) -> None:
        """Add what is new to the file; a cache that cannot be written is left as it is."""
        if not self._changed and not self._stamps.changed:
            return
        used, self._used, names = self._used, {}, self._names
        self._places, self._names, self._entries = {}, [], {}
        self._read()  # another run may have written meanwhile
        merged = {key: each for key, each in self._entries.items() if each.day + KEPT_DAYS >= self._today}
        for key, each in used.items():
            root = -1 if each.root < 0 else self._number(names[each.root])
            folders, files = ([self._number(names[at]) for at in places] for places in (each.folders, each.files))
            merged[key] = Entry(each.day, root, folders, files, each.state, each.result)
        content = {
            "format": FORMAT,
            "places": self._names,
            "stamps": {path: each for path, each in self._stamps.known.items() if each[2] + KEPT_DAYS >= self._today},
            "entries": {key: [e.day, e.root, e.folders, e.files, e.state, e.result] for key, e in merged.items()},
        }
        with suppress(WriteError, OSError):
            make_folder(self._folder)
            write_atomically(self._path, json.dumps(content, separators=(",", ":")).encode("ascii"))

    def _read(self) -> None:
        """Read the file if there is one; anything that is not as `save` writes it counts as nothing."""
        try:
            content = json.loads(self._path.read_bytes())
            if content["format"] != FORMAT:
                return
            names = [str(name) for name in content["places"]]
            entries = {key: Entry(*fields) for key, fields in content["entries"].items()}
            for each in entries.values():
                numbers = (each.root, *each.folders, *each.files)
                if min(numbers) < -1 or max(numbers) >= len(names) or each.day < 0:
                    return
            self._stamps.load(content["stamps"])
        except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
            return
        self._names, self._entries = names, entries
        self._places = {name: at for at, name in enumerate(names)}

    def _number(self, place: str) -> int:
        number = self._places.setdefault(place, len(self._names))
        if number == len(self._names):
            self._names.append(place)
        return number

    def _is_current(self, entry: Entry, path: Path) -> bool:
        if entry.root < 0 and not entry.folders and not entry.files:
            return True
        if entry.root >= 0 and self._state(os.path.dirname(os.path.abspath(path)), "root") != self._names[entry.root]:
            return False
        states = [self._state(self._names[at], "folder") for at in entry.folders]
        states += [self._state(self._names[at], "file") for at in entry.files]
        return _combined(states) == entry.state

    def _state(self, place: str, kind: str) -> str:
        """The state of a place, which is looked at once a run."""
        if kind == "file":
            return self._stamps.digest_of(place)
        key = (kind, place)
        if key not in self._states:
            self._states[key] = _STATES[kind](place)
        return self._states[key]


def make_folder(folder: Path) -> None:
    """Make the folder of a cache, which git and backups leave out. Raises OSError or WriteError."""
    if is_cache(folder):
        return
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / ".gitignore", b"# made by accumlint\n*\n")
    write_atomically(folder / TAG, f"{SIGNATURE}\n# This folder is a cache made by accumlint.\n".encode())


def is_cache(folder: Path) -> bool:
    """Whether a folder is a cache of ours: nothing else is ever removed."""
    try:
        return (folder / TAG).read_text(encoding="ascii").startswith(f"{SIGNATURE}\n# This folder is a cache made by")
    except (OSError, UnicodeDecodeError):
        return False


def open_cache(settings: Settings) -> Cache | None:
    """The cache of a run; None where it is not wanted, or where repairs are applied or executed."""
    if settings.cache_dir is None or settings.confirms or settings.flags["add_noqa"]:
        return None
    return Cache(settings.cache_dir, settings)


OUTPUT_ONLY = frozenset(
    {"paths", "exclude", "extend_exclude", "force_exclude", "respect_gitignore", "stdin_filename"}  # which files
    | {"fix", "unsafe_fixes", "diff", "confirm", "require", "add_noqa"}  # never from the cache
    | {"output_format", "output_file", "statistics", "color", "verbose", "quiet", "jobs", "exit_zero"}
    | {"exit_non_zero_on_fix", "show_files", "show_settings", "baseline", "write_baseline"}
    | {"safe_codes", "unsafe_codes"}  # laid over the result afterwards
    | {"flags", "no_cache", "cache_dir", "config", "config_file", "isolated"}  # what they lead to is in other settings
    | {"select", "extend_select", "ignore", "per_file_ignores"}
)
"""Settings and flags that no result depends on. Any other, a new one too, tells caches apart."""


def _identity(settings: Settings) -> str:
    """All that decides about a result beside the file and its project: the tool, its parser, the settings."""
    told = {each.name: getattr(settings, each.name) for each in fields(settings) if each.name not in OUTPUT_ONLY}
    flags = {name: value for name, value in settings.flags.items() if name not in OUTPUT_ONLY}
    tools = [FORMAT, sys.version, _stamp("accumlint"), _stamp("libcst")]
    return json.dumps([*tools, os.getcwd(), settings.repairs, _plain(told), _plain(flags)])


def _plain(value: Any) -> Any:
    """A value in a form that is the same in each run: sets have no order of their own."""
    if isinstance(value, Mapping):
        return [[key, _plain(value[key])] for key in sorted(value)]
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if isinstance(value, (tuple, list)):
        return [_plain(each) for each in value]
    return value if isinstance(value, (str, int, float, type(None))) else repr(value)


def _stamp(package: str) -> list[Any]:
    """What tells one state of an installed package from another: names, sizes and times of its modules."""
    spec = find_spec(package)
    found: list[Any] = []
    pending = [*(spec.submodule_search_locations or ())] if spec else []
    while pending:
        with os.scandir(pending.pop()) as entries:
            for entry in entries:
                if entry.is_dir():
                    pending.append(entry.path)
                elif entry.name.endswith((".py", ".json", ".so", ".pyd")):
                    status = entry.stat()
                    found.append([entry.path, status.st_size, status.st_mtime_ns])
    return sorted(found)


def _combined(states: list[str]) -> str:
    return digest("\n".join(states).encode("ascii"))


def _root_state(folder: str) -> str:
    return str(root_of(Path(folder).resolve()))


def _folder_state(folder: str) -> str:
    return names_state(names_in(folder))


_STATES = {"root": _root_state, "folder": _folder_state}
