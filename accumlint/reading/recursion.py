"""What it takes to build and walk trees: recursion beyond Python's default, no search for garbage meanwhile."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

RECURSION_LIMIT = 20_000


@contextmanager
def deep_recursion() -> Iterator[None]:
    """libcst generates code recursively, several frames a level; depth itself is bounded by `table.MAX_DEPTH`."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(max(limit, RECURSION_LIMIT))
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)


@contextmanager
def no_collection() -> Iterator[None]:
    """Trees are all that is made here and none is dropped: searching them for garbage costs a quarter of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
