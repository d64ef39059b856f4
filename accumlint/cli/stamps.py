"""The digests of files, remembered by what the system says of them: a file that nobody touched is not read again.

A stamp is the size, the times of the last change of content and of status, and the number of a file. Whoever puts back
the first time cannot put back the second. A file that was changed a moment ago is not remembered: it could change again
within the same tick of the clock.
"""

from __future__ import annotations

import os
import time
from typing import Any

from accumlint.reading.footprint import ABSENT, digest

SETTLED = 2_000_000_000
"""Nanoseconds after which a change of a file is over."""


class Stamps:
    """The digests by path. `known` are [stamp, digest, day of the last use] of earlier runs."""

    def __init__(self, today: int) -> None:
        self.known: dict[str, list[Any]] = {}
        self.changed = False
        self._today = today
        self._used: dict[str, str] = {}

    def digest_of(self, path: str) -> str:
        """The digest of a file as it is now, ABSENT for one that cannot be read; looked at once a run."""
        found = self._used.get(path)
        if found is None:
            found = self._used[path] = self._find(path)
        return found

    def _find(self, path: str) -> str:
        try:
            status = os.stat(path)
            stamp = [status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino]
            known = self.known.get(path)
            if known is not None and known[0] == stamp:
                if known[2] + 1 < self._today:
                    known[2], self.changed = self._today, True
                return str(known[1])
            with open(path, "rb") as file:
                found = digest(file.read())
        except (OSError, ValueError):
            return ABSENT
        if max(stamp[1], stamp[2]) + SETTLED < time.time_ns():
            self.known[path] = [stamp, found, self._today]
            self.changed = True
        elif self.known.pop(path, None) is not None:
            self.changed = True
        return found

    def load(self, content: Any) -> None:
        """Take over what a cache holds. Raises TypeError, ValueError or KeyError for anything that is none."""
        for path, (stamp, found, day) in content.items():
            if not (isinstance(stamp, list) and isinstance(found, str) and isinstance(day, int)):
                raise TypeError(path)
            self.known.setdefault(path, [stamp, found, day])
