"""A progress bar on a terminal, once a run takes longer than a second."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sized
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rich.progress import Progress

T = TypeVar("T")
PATIENCE = 1.0  # seconds


def with_progress(items: Iterable[T], total: Sized, enabled: bool) -> Iterator[T]:
    """The items, as they come; the bar goes to stderr and is gone at the end."""
    if not enabled or not sys.stderr.isatty():
        yield from items
        return
    begin = time.monotonic()
    bar: Progress | None = None
    try:
        for done, item in enumerate(items, start=1):
            yield item
            if bar is None and time.monotonic() - begin > PATIENCE and done < len(total):
                bar = _bar(len(total))
            if bar is not None:
                bar.update(bar.task_ids[0], completed=done)
    finally:
        if bar is not None:
            bar.stop()


def _bar(total: int) -> Progress:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("checking"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    bar.add_task("checking", total=total)
    bar.start()
    return bar
