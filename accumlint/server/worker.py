"""The worker process: reads jobs, writes answers, both pickled behind their length. Its parent is our own server."""

from __future__ import annotations

import os
import pickle
import struct
import sys
from typing import BinaryIO

LENGTH = struct.Struct("!Q")


def main() -> None:
    """Answer jobs until there are no more."""
    from accumlint.server.jobs import Job
    from accumlint.server.work import do

    # What a library prints must not get between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    while isinstance(job := read(sys.stdin.buffer), Job):
        answers.write(packed(do(job)))
        answers.flush()


def packed(message: object) -> bytes:
    data = pickle.dumps(message)
    return LENGTH.pack(len(data)) + data


def read(stream: BinaryIO) -> object | None:
    """The next message; None at the end."""
    head = stream.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    message: object = pickle.loads(stream.read(LENGTH.unpack(head)[0]))
    return message
