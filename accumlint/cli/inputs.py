"""The files of a run."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from accumlint.cli.settings import Settings
from accumlint.source.text import SourceText


def find_files(settings: Settings) -> Iterator[Path]:
    for text in settings.paths:
        path = Path(text)
        if path.is_dir():
            for folder, folders, names in os.walk(path):
                folders[:] = sorted(name for name in folders if not name.startswith("."))
                yield from (Path(folder) / name for name in sorted(names) if name.endswith((".py", ".pyi")))
        else:
            yield path


def load(path: Path, shown: str) -> SourceText:
    """Raises SourceError."""
    return SourceText.from_path(path)
