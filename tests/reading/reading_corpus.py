"""Files of the standard library to read: many small ones and some large ones, the same on each run."""

from __future__ import annotations

import sysconfig
import tokenize
from functools import cache
from pathlib import Path

SMALL = 540
LARGE = 12
CHUNKS = 8


@cache
def standard_library() -> tuple[Path, ...]:
    root = Path(sysconfig.get_path("stdlib"))
    found = [path for path in root.rglob("*.py") if "site-packages" not in path.parts]
    sized = sorted((path.stat().st_size, path) for path in found)
    small = [path for size, path in sized if size >= 400][:SMALL]
    large = [path for size, path in sized if size <= 60_000][-LARGE:]
    return tuple(dict.fromkeys(small + large))


def chunk(number: int) -> tuple[Path, ...]:
    return standard_library()[number::CHUNKS]


def source(path: Path) -> str | None:
    """The text with its own line ends, or None if it declares another encoding than it has."""
    try:
        with path.open("rb") as file:
            encoding, _ = tokenize.detect_encoding(file.readline)
        return path.read_bytes().decode(encoding)
    except (SyntaxError, UnicodeDecodeError):
        return None
