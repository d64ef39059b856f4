"""Write a file whole or not at all: a reader, and a kill at any moment, sees the old bytes or the new ones."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path


class WriteError(Exception):
    """A file that could not be written; it is as it was. `message` is one line."""

    def __init__(self, path: str | Path, message: str) -> None:
        super().__init__(f"{path}: {message}")
        self.path = str(path)
        self.message = message


def write_atomically(path: str | Path, data: bytes, expected: bytes | None = None) -> bool:
    """Replace the content of a file; returns whether it had to change.

    A link stays a link: what it points at is replaced. Mode, and ownership where the system permits, are kept; a name
    with several hard links is parted from the others, as every atomic replace does. With `expected`, a file that
    holds anything else is left alone: someone saved it meanwhile. Raises WriteError, and the old file is intact.
    """
    target = os.path.realpath(path)
    try:
        old = _read_old(target)
        if old == data:
            return False  # two runs at once may want the same
        if expected is not None and old is not None and old != expected:
            raise WriteError(path, "was changed by someone else in the meantime; it is left as it is")
        _replace(target, data, os.stat(target) if old is not None else None)
    except OSError as error:
        raise WriteError(path, f"cannot be written: {error.strerror or error}") from error
    return True


def _read_old(target: str) -> bytes | None:
    """The present bytes, None if there is no file. Raises OSError for a read-only file, a folder, a loop of links."""
    if os.path.islink(target):
        raise OSError("too many levels of symbolic links")
    try:
        mode = os.stat(target).st_mode
    except FileNotFoundError:
        return None
    if not stat.S_ISREG(mode):
        raise OSError("is not a regular file")
    # A rename would get past the mode, which was surely set on purpose; root passes os.access, so ask the bits too.
    if not mode & 0o222 or not os.access(target, os.W_OK):
        raise OSError("the file is read-only")
    with open(target, "rb") as file:
        return file.read()


def _replace(target: str, data: bytes, old: os.stat_result | None) -> None:
    """Write a neighbour and rename it over the target; the neighbour is gone whatever happens."""
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".accumlint-{os.urandom(8).hex()}.tmp")
    try:
        # A new file takes its mode from the umask; a copy of an old one is private until it has the old mode.
        handle = os.open(temporary, _FLAGS, 0o666 if old is None else 0o600)
        try:
            _write_all(handle, data)
            if old is not None:
                _keep_attributes(temporary, old)
            os.fsync(handle)
        finally:
            os.close(handle)
        os.replace(temporary, target)
    except BaseException:
        _remove(temporary)
        raise
    _sync_folder(folder)


_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0) | getattr(os, "O_NOFOLLOW", 0)


def _write_all(handle: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def _keep_attributes(temporary: str, old: os.stat_result) -> None:
    """Owner before mode: a change of owner clears the set-id bits."""
    new = os.stat(temporary)
    if hasattr(os, "chown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        for uid, gid in ((old.st_uid, old.st_gid), (-1, old.st_gid)):
            try:
                os.chown(temporary, uid, gid)
                break
            except PermissionError:
                continue
    os.chmod(temporary, stat.S_IMODE(old.st_mode))


def _remove(temporary: str) -> None:
    with suppress(OSError):
        os.unlink(temporary)


def _sync_folder(folder: str) -> None:
    """Make the rename itself durable where the system can; the content is safe either way."""
    with suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
