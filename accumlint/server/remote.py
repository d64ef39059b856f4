"""The server's end of a worker process: one job at a time; one that nobody waits for does not hold up the next."""

from __future__ import annotations

import asyncio
import pickle
import sys
from contextlib import suppress

from accumlint.findings import Problem
from accumlint.report.model import CheckedFile
from accumlint.server.jobs import Answer, Job
from accumlint.server.worker import LENGTH, packed

PATIENCE = 1.0  # seconds for a job that nobody waits for any more, before its process is ended
LONGEST = 300.0  # seconds for any job

# The path of this process, and not the folder it was started in: that is the user's.
_START = "import sys; sys.path[:] = {path!r}; from accumlint.server.worker import main; main()"


class Remote:
    """A worker process that is started when it is needed, and again after it has died."""

    def __init__(self) -> None:
        self._process: asyncio.subprocess.Process | None = None
        self._turn = asyncio.Lock()
        self._running: asyncio.Task[Answer] | None = None

    async def do(self, job: Job) -> Answer:
        """The answer to a job. Whoever is cancelled while waiting leaves the job to end by itself, or be ended."""
        async with self._turn:
            await self._settle()
            self._running = asyncio.create_task(self._exchange(job))
            return await asyncio.shield(self._running)

    async def close(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is not None:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()

    async def _settle(self) -> None:
        """Wait for a job that was given up, but not long."""
        if self._running is None or self._running.done():
            return
        _, pending = await asyncio.wait({self._running}, timeout=PATIENCE)
        if pending:
            self._running.cancel()
            await self.close()

    async def _exchange(self, job: Job) -> Answer:
        try:
            return await asyncio.wait_for(self._ask(job), LONGEST)
        except (asyncio.IncompleteReadError, ConnectionError):
            reason = "the worker process died (out of memory?); please report this"
        except asyncio.TimeoutError:
            reason = f"not checked: it took longer than {LONGEST:.0f} s"
        await self.close()
        return Answer(CheckedFile(job.path, problems=[Problem(job.path, reason, internal=True)]))

    async def _ask(self, job: Job) -> Answer:
        process = await self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(packed(job))
        await process.stdin.drain()
        head = await process.stdout.readexactly(LENGTH.size)
        answer = pickle.loads(await process.stdout.readexactly(LENGTH.unpack(head)[0]))
        assert isinstance(answer, Answer)
        return answer

    async def _started(self) -> asyncio.subprocess.Process:
        if self._process is None or self._process.returncode is not None:
            pipe = asyncio.subprocess.PIPE
            start = (sys.executable, "-c", _START.format(path=sys.path))
            self._process = await asyncio.create_subprocess_exec(*start, stdin=pipe, stdout=pipe)
        return self._process
