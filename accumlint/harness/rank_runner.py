"""Runs one program on several ranks: gloo processes on loopback, started once, each a worker of `runner.py`.

    with RankRunner() as ranks:
        results = ranks.run(Job("1", "def run(torch, rank): ..."))      # one result a rank

A rank that raises, dies or waits for the others without end takes all of them down; the next job starts new ones.
"""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType

from accumlint.harness.runner import GIB, Group, Job, Result, Runner, Status


class RankRunner:
    """Use as a context manager; not shared between threads."""

    def __init__(self, world_size: int = 2, timeout: float = 30.0, memory: int | None = 2 * GIB) -> None:
        self.world_size, self.timeout, self.memory = world_size, timeout, memory
        self.starts = 0
        self._workers: list[Runner] = []
        self._folder = ""
        self._unusable: Result | None = None

    def __enter__(self) -> RankRunner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def torch_version(self) -> str:
        return self._workers[0].torch_version if self._workers else ""

    def run(self, job: Job) -> list[Result]:
        """Execute `job` on all ranks at once, each with its `rank` among the arguments; one result a rank."""
        if self._unusable is not None:
            return [dataclasses.replace(self._unusable, id=job.id)] * self.world_size
        if not self._workers:
            self._prepare()
        jobs = [dataclasses.replace(job, arguments={**job.arguments, "rank": rank}) for rank in range(self.world_size)]
        with ThreadPoolExecutor(self.world_size) as pool:
            results = list(pool.map(lambda pair: pair[0].run(pair[1]), zip(self._workers, jobs, strict=True)))
        if any(result.status in (Status.NO_GROUP, Status.NO_TORCH) for result in results):
            self._unusable = next(r for r in results if r.status in (Status.NO_GROUP, Status.NO_TORCH))
        if any(not result.ok for result in results):
            self.close()
        return results

    def close(self) -> None:
        for worker in self._workers:
            worker.close()
        self._workers = []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = ""

    def _prepare(self) -> None:
        """New workers that will meet through a new file."""
        self._folder = tempfile.mkdtemp(prefix="accumlint-ranks-")
        store = str(Path(self._folder) / "store")
        self._workers = [
            Runner(self.timeout, self.memory, group=Group(rank, self.world_size, store, self.timeout))
            for rank in range(self.world_size)
        ]
        self.starts += 1
