"""Executes generated programs ("slices") in a subprocess that imports torch once and is fenced in time and memory.

    with Runner(timeout=10, memory=2 * GIB) as runner:
        result = runner.run(Job("1", "def run(torch):\n    return {'x': torch.ones(3).sum()}"))
        result.status, result.value        # Status.OK, {"x": 3.0}

A job never raises here: what went wrong is its result. A worker that hangs or dies is replaced for the next job. This
module does not import torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import Enum
from pathlib import Path
from types import TracebackType
from typing import Any

GIB = 1 << 30
WORKER = Path(__file__).with_name("worker.py")
KEPT_VARIABLES = ("PATH", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH", "SYSTEMROOT", "LANG")  # what loading torch may need


class Status(Enum):
    OK = "ok"
    RAISED = "raised"  # the program raised, returned something else than plain numbers, or is no Python
    TIMEOUT = "timed out"
    MEMORY = "out of memory"
    CRASHED = "crashed"  # the process died
    NO_TORCH = "torch is missing"
    NO_GROUP = "the ranks do not meet"


@dataclass(frozen=True)
class Group:
    """The place of a worker among ranks that talk over gloo; they meet through the file `store`."""

    rank: int
    world_size: int
    store: str
    timeout: float = 60.0


@dataclass(frozen=True)
class Job:
    """A program whose function `entry(torch, **arguments)` returns a dict of plain numbers, lists and strings.

    `timeout` (seconds of wall clock) and `memory` (bytes above what torch itself needs) override the runner's.
    """

    id: str
    source: str
    entry: str = "run"
    seed: int = 0
    arguments: dict[str, Any] = field(default_factory=dict)
    timeout: float | None = None
    memory: int | None = None


@dataclass(frozen=True)
class Result:
    """What became of a job. `line` is the line of the program where it raised; `held` names the limits in force."""

    id: str
    status: Status
    value: dict[str, Any] = field(default_factory=dict)
    error: str = ""
    error_type: str = ""
    line: int | None = None
    output: str = ""
    seconds: float = 0.0
    held: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status is Status.OK


class Runner:
    """Runs jobs one after another in one worker process. Use as a context manager; not shared between threads."""

    def __init__(
        self,
        timeout: float = 20.0,
        memory: int | None = 2 * GIB,
        *,
        output: int = 10_000,
        start_timeout: float = 180.0,
        python: str = sys.executable,
        path: Iterable[str] | None = None,
        group: Group | None = None,
    ) -> None:
        self.timeout, self.memory, self.output, self.start_timeout = timeout, memory, output, start_timeout
        self.starts = 0  # how often torch was imported
        self.torch_version = ""
        self._python = python
        self._group = group
        self._path = [entry for entry in (sys.path if path is None else path) if entry]
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str] = queue.Queue()
        self._home = ""
        self._unusable: Result | None = None

    def __enter__(self) -> Runner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, job: Job) -> Result:
        """Execute `job` and return its result; starts or restarts the worker if need be."""
        failed = self._start()
        if failed is not None:
            return Result(job.id, failed.status, error=failed.error)
        timeout = self.timeout if job.timeout is None else job.timeout
        limits = {"cpu": timeout, "memory": self.memory if job.memory is None else job.memory, "output": self.output}
        request = {
            "id": job.id,
            "source": job.source,
            "entry": job.entry,
            "seed": job.seed,
            "arguments": job.arguments,
            "limits": limits,
        }
        self._send(request)
        answer = self._receive(timeout)
        if answer is None:
            code = self._kill()
            if code is None or (hasattr(signal, "SIGXCPU") and code == -signal.SIGXCPU):
                return Result(job.id, Status.TIMEOUT, error=f"no result within {timeout:g} s", seconds=timeout)
            return Result(job.id, Status.CRASHED, error=f"the worker process died ({_name_exit(code)})")
        if answer["status"] == "ok":
            status = Status.OK
        else:
            status = Status.MEMORY if answer["status"] == "memory" else Status.RAISED
        return Result(
            job.id,
            status,
            value=answer.get("value", {}),
            error=answer.get("error", ""),
            error_type=answer.get("type", ""),
            line=answer.get("line"),
            output=answer["output"],
            seconds=answer["seconds"],
            held=tuple(answer["held"]),
        )

    def run_all(self, jobs: Iterable[Job]) -> list[Result]:
        return [self.run(job) for job in jobs]

    def close(self) -> None:
        """End the worker and remove its folder. The runner can be used again."""
        self._kill()
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = ""

    def _start(self) -> Result | None:
        """Make sure that a worker is ready; return the reason if there cannot be one."""
        if self._unusable is not None or (self._process is not None and self._process.poll() is None):
            return self._unusable
        self._kill()
        self._home = self._home or tempfile.mkdtemp(prefix="accumlint-slice-")
        environment = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
        environment.update(
            HOME=self._home, TMPDIR=self._home, OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", CUDA_VISIBLE_DEVICES="",
            PYTHONHASHSEED="0", PYTHONDONTWRITEBYTECODE="1",
        )  # fmt: skip
        if self._group is not None:
            environment["GLOO_SOCKET_IFNAME"] = "lo0" if sys.platform == "darwin" else "lo"
        self._process = subprocess.Popen(
            [self._python, "-I", str(WORKER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            encoding="utf-8",
            cwd=self._home,
            env=environment,
            start_new_session=True,
        )
        self._lines = queue.Queue()
        threading.Thread(target=_pump, args=(self._process, self._lines), daemon=True).start()
        self.starts += 1
        self._send({"path": self._path, "group": None if self._group is None else asdict(self._group)})
        answer = self._receive(self.start_timeout)
        if answer is None:
            code = self._kill()
            reason = f"did not start within {self.start_timeout:g} s" if code is None else f"died ({_name_exit(code)})"
            return Result("", Status.CRASHED, error=f"the worker process {reason}")
        if answer["status"] == "no group":
            self._kill()
            self._unusable = Result("", Status.NO_GROUP, error=str(answer["error"]))
            return self._unusable
        if answer["status"] != "ready":
            self._kill()
            text = f"torch cannot be imported ({answer['error']}); install it: pip install 'accumlint[torch]'"
            self._unusable = Result("", Status.NO_TORCH, error=text)
            return self._unusable
        self.torch_version = answer["torch"]
        return None

    def _send(self, message: dict[str, Any]) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError, OSError):  # a dead worker shows when its answer is awaited
            self._process.stdin.write(json.dumps(message) + "\n")
            self._process.stdin.flush()

    def _receive(self, timeout: float) -> dict[str, Any] | None:
        """Return the next answer; None if the time is over or the worker ended."""
        try:
            line = self._lines.get(timeout=timeout)
        except queue.Empty:
            return None
        answer: dict[str, Any] | None = json.loads(line) if line else None
        return answer

    def _kill(self) -> int | None:
        """End the worker; return its exit code if it had ended by itself."""
        process, self._process = self._process, None
        if process is None:
            return None
        with contextlib.suppress(subprocess.TimeoutExpired):  # its output may end a moment before it does
            process.wait(timeout=0.2 if not self._lines.empty() else 0.05)
        code = process.poll()
        if code is None:
            process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError, OSError):
                    pipe.close()
        return code


def _pump(process: subprocess.Popen[str], lines: queue.Queue[str]) -> None:
    """Move the worker's lines into the queue; an empty line marks the end."""
    assert process.stdout is not None
    with contextlib.suppress(ValueError, OSError):
        for line in process.stdout:
            lines.put(line)
    lines.put("")


def _name_exit(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
