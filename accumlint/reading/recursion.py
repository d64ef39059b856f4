"""What it takes to build and walk trees: recursion beyond Python's default, no search for garbage meanwhile."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

RECURSION_LIMIT = 20_000
RARE = 100_000
"""How many objects are made before they are looked through for garbage: some tens of MB at most."""


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
def rare_collection() -> Iterator[None]:
    """A file's tree stays alive while it is judged: looking through it for garbage again and again is not linear."""
    usual = gc.get_threshold()
    gc.set_threshold(RARE, *usual[1:])
    try:
        yield
    finally:
        gc.set_threshold(*usual)


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
