"""Run a command with the stand-in engine again and again, killed each time one call to the system later.

    python killed_runs.py BEFORE ARGUMENT ...

BEFORE is a folder that is copied to `work` in the current folder for each run, and the command runs there. A call is
one that changes something: `CALLS`, all of `os`. A run is killed with SIGKILL before its n-th call, and where that is a
write once more with half of the write done. Prints a line of JSON for each run: what it was killed at and what was
left of each file (content, mode, owner, target of a link).
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fake_engine

from accumlint.cli.main import run

CALLS = (
    "open",
    "write",
    "chmod",
    "chown",
    "fsync",
    "close",
    "replace",
    "rename",
    "link",
    "unlink",
    "mkdir",
    "truncate",
)
WORK = Path("work")


def state(folder: Path) -> dict[str, list[Any]]:
    """Each file by its name: its content, mode and owner, and what it points at if it is a link."""
    found = {}
    for path in sorted(folder.rglob("*")):
        status = path.lstat()
        if stat.S_ISREG(status.st_mode):
            content = path.read_bytes().hex()
            found[str(path.relative_to(folder))] = [content, stat.S_IMODE(status.st_mode), status.st_uid, ""]
        elif stat.S_ISLNK(status.st_mode):
            found[str(path.relative_to(folder))] = ["", 0, status.st_uid, os.readlink(path)]
    return found


class Killer:
    """Counts the calls and kills the process at one of them."""

    def __init__(self, at: int, torn: bool, say: int) -> None:
        self._at, self._torn, self._say = at, torn, say
        self._count = 0
        self._real_write = os.write
        for name in CALLS:
            setattr(os, name, self._counted(name, getattr(os, name)))

    def _counted(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._count += 1
            if self._count == self._at and not (self._torn and name != "write"):
                if self._torn:
                    self._real_write(args[0], args[1][: len(args[1]) // 2])
                self._real_write(self._say, name.encode())
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*args, **kwargs)

        return call


def one(before: Path, arguments: list[str], at: int, torn: bool) -> str:
    """What the run was killed at, "" if it came to its end."""
    shutil.rmtree(WORK, ignore_errors=True)
    shutil.copytree(before, WORK, symlinks=True)
    for path in before.rglob("*"):  # copytree gives all files to us
        status = path.lstat()
        os.chown(WORK / path.relative_to(before), status.st_uid, status.st_gid, follow_symlinks=False)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.chdir(WORK)
        sink = os.open(os.devnull, os.O_RDWR)
        os.dup2(sink, 1)
        os.dup2(sink, 2)
        Killer(at, torn, writing)
        os._exit(run(arguments))
    os.close(writing)
    _, status = os.waitpid(child, 0)
    with os.fdopen(reading) as pipe:
        killed = pipe.read()
    assert os.WIFSIGNALED(status) == bool(killed), (status, killed)
    print(json.dumps({"at": at, "call": killed, "torn": torn, "status": status, "files": state(WORK)}))
    return killed


def main() -> None:
    before, arguments = Path(sys.argv[1]).resolve(), sys.argv[2:]
    fake_engine.install()
    at = 1
    while call := one(before, arguments, at, torn=False):
        if call == "write":
            one(before, arguments, at, torn=True)
        at += 1


if __name__ == "__main__":
    main()
