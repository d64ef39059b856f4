"""Processes for long runs. A short run, or a few files as pre-commit hands them over, starts none."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from typing import TYPE_CHECKING

from accumlint.cli.cache import Cache
from accumlint.cli.inputs import Input
from accumlint.cli.processing import Outcome, process
from accumlint.cli.settings import Settings
from accumlint.findings import Problem
from accumlint.report.model import CheckedFile

if TYPE_CHECKING:
    from multiprocessing.context import BaseContext

PATIENCE = 1.5  # seconds of work in this process before others are started
FEWEST = 8  # files that must be left for it
PORTION = 8  # files that a worker is handed at once
LARGE = 60_000  # bytes of a file that is handed over alone
MANY = 100  # of them, at most


def process_cached(
    inputs: Sequence[Input], settings: Settings, jobs: int | None, cache: Cache | None
) -> Iterator[Outcome]:
    """As `process_all`, but the cache answers for what it knows; the rest is kept, also of a run that breaks off."""
    if cache is None:
        yield from process_all(inputs, settings, jobs)
        return
    known = [cache.look_up(found) for found in inputs]
    fresh = process_all([found for found, hit in zip(inputs, known, strict=True) if hit is None], settings, jobs)
    try:
        for hit in known:
            if hit is not None:
                yield hit
                continue
            outcome = next(fresh)
            cache.keep(outcome)
            yield outcome
    finally:
        fresh.close()
        cache.save()


def process_all(inputs: Sequence[Input], settings: Settings, jobs: int | None) -> Generator[Outcome, None, None]:
    """The outcomes in the order of the inputs. `jobs` 1 starts no process; None starts one a core if it is worth it."""
    begin = time.monotonic()
    done = 0
    workers = jobs or _cores()
    for found in inputs:
        late = time.monotonic() - begin > PATIENCE or jobs is not None
        if workers > 1 and late and len(inputs) - done >= FEWEST:
            break
        yield process_lean(found, settings)
        done += 1
    if done < len(inputs):
        yield from _in_pool(inputs[done:], settings, workers)


def _in_pool(inputs: Sequence[Input], settings: Settings, workers: int) -> Iterator[Outcome]:
    from concurrent.futures import ProcessPoolExecutor  # most runs need no pool, and should not wait for its import
    from concurrent.futures.process import BrokenProcessPool

    done = 0
    try:
        with ProcessPoolExecutor(workers, mp_context=_context(), initializer=_begin, initargs=(settings,)) as pool:
            try:
                # The largest start first and alone: one that came last would keep its process when others are done.
                large = {found: pool.submit(_process_some, (found,)) for found in _largest(inputs)}
                rest = [found for found in inputs if found not in large]
                several = pool.map(_process_some, [rest[at : at + PORTION] for at in range(0, len(rest), PORTION)])
                small = (outcome for outcomes in several for outcome in outcomes)
                for found in inputs:
                    yield large.pop(found).result()[0] if found in large else next(small)
                    done += 1
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise
    except BrokenProcessPool:
        message = "a worker process died (out of memory?); try --jobs 1, and please report this"
        for found in inputs[done:]:
            yield Outcome(CheckedFile(found.shown, problems=[Problem(found.shown, message, internal=True)]))


def _largest(inputs: Sequence[Input]) -> list[Input]:
    """The files that may take long by themselves, the largest first."""
    sized = sorted(((_size(found), at) for at, found in enumerate(inputs)), reverse=True)
    return [inputs[at] for size, at in sized[:MANY] if size > LARGE]


def _size(found: Input) -> int:
    try:
        return os.stat(found.path).st_size
    except (OSError, ValueError):
        return 0


_settings: Settings | None = None  # of a worker process, which is handed them once


def _begin(settings: Settings) -> None:
    global _settings
    _settings = settings


def _process_some(inputs: Sequence[Input]) -> list[Outcome]:
    assert _settings is not None
    return [process_lean(found, _settings) for found in inputs]


def process_lean(found: Input, settings: Settings) -> Outcome:
    """As `process`, without the text of a file that nothing is printed of: it would cost more than its check."""
    outcome = process(found, settings)
    file = outcome.file
    if file is not None and not file.findings and not file.loops and not file.problems:
        file.source = None
    return outcome


def _context() -> BaseContext:
    """Fork where it is safe: a process that has threads (it confirms repairs already) would hand on their locks."""
    from multiprocessing import get_all_start_methods, get_context

    can_fork = "fork" in get_all_start_methods() and threading.active_count() == 1
    return get_context("fork" if can_fork else "spawn")


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
