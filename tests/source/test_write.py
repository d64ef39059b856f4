"""A file is written whole or not at all."""

from __future__ import annotations

import errno
import os
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from accumlint.source import write as module
from accumlint.source.write import WriteError, write_atomically

OLD, NEW = b"old content\r\n", b"new content, somewhat longer\n" * 1000
STEPS = ["open", "write", "chmod", "fsync", "close", "replace", "stat"]
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs POSIX")


class Kill(BaseException):
    """Stands for a signal: no `except Exception` stops it."""


def _file(folder: Path) -> Path:
    path = folder / "train.py"
    path.write_bytes(OLD)
    return path


def test_a_file_is_written_only_if_it_changes(tmp_path: Path) -> None:
    path = _file(tmp_path)
    os.utime(path, (1, 1))
    assert write_atomically(path, OLD) is False
    assert path.stat().st_mtime == 1
    assert write_atomically(path, NEW) is True
    assert path.read_bytes() == NEW
    assert os.listdir(tmp_path) == ["train.py"]


def test_a_new_file_has_the_mode_of_any_new_file(tmp_path: Path) -> None:
    assert write_atomically(tmp_path / "a.json", NEW) is True
    (tmp_path / "b.json").write_bytes(NEW)
    assert (tmp_path / "a.json").read_bytes() == NEW
    assert (tmp_path / "a.json").stat().st_mode == (tmp_path / "b.json").stat().st_mode


@posix
@pytest.mark.parametrize("mode", [0o600, 0o644, 0o755, 0o777])
def test_the_mode_is_kept(tmp_path: Path, mode: int) -> None:
    path = _file(tmp_path)
    path.chmod(mode)
    write_atomically(path, NEW)
    assert stat.S_IMODE(path.stat().st_mode) == mode


@posix
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give files away")
def test_the_owner_is_kept(tmp_path: Path) -> None:
    path = _file(tmp_path)
    os.chown(path, 12345, 23456)
    write_atomically(path, NEW)
    assert (path.stat().st_uid, path.stat().st_gid) == (12345, 23456)


@posix
def test_an_owner_that_cannot_be_kept_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path)
    tried = []

    def refuse(target: str, uid: int, gid: int) -> None:
        tried.append((uid, gid))
        raise PermissionError

    real = os.stat(path)
    other = os.stat_result((*real[:4], real.st_uid + 1, *real[5:]))
    monkeypatch.setattr(module.os, "chown", refuse)
    temporary = tmp_path / "tmp"
    temporary.write_bytes(b"")
    module._keep_attributes(str(temporary), other)
    assert tried == [(real.st_uid + 1, real.st_gid), (-1, real.st_gid)]
    assert stat.S_IMODE(temporary.stat().st_mode) == stat.S_IMODE(real.st_mode)


@posix
def test_a_link_stays_a_link(tmp_path: Path) -> None:
    path = _file(tmp_path)
    (tmp_path / "sub").mkdir()
    link = tmp_path / "sub" / "link.py"
    link.symlink_to("../train.py")
    assert write_atomically(link, NEW) is True
    assert link.is_symlink()
    assert path.read_bytes() == NEW
    assert os.listdir(tmp_path / "sub") == ["link.py"]


@posix
def test_a_loop_of_links_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.py").symlink_to("b.py")
    (tmp_path / "b.py").symlink_to("a.py")
    with pytest.raises(WriteError):
        write_atomically(tmp_path / "a.py", NEW)
    assert sorted(os.listdir(tmp_path)) == ["a.py", "b.py"]


@posix
def test_a_read_only_file_is_refused_even_to_root(tmp_path: Path) -> None:
    path = _file(tmp_path)
    path.chmod(0o444)
    with pytest.raises(WriteError, match="read-only") as caught:
        write_atomically(path, NEW)
    assert "\n" not in str(caught.value)
    assert path.read_bytes() == OLD


def test_a_folder_and_a_missing_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="not a regular file"):
        write_atomically(tmp_path, NEW)
    with pytest.raises(WriteError, match="cannot be written"):
        write_atomically(tmp_path / "no" / "a.py", NEW)


def test_a_file_that_was_saved_meanwhile_is_left_alone(tmp_path: Path) -> None:
    path = _file(tmp_path)
    with pytest.raises(WriteError, match="meantime"):
        write_atomically(path, NEW, expected=b"what we read")
    assert path.read_bytes() == OLD
    assert write_atomically(path, NEW, expected=OLD) is True


def test_a_file_that_someone_else_wrote_just_so_is_right(tmp_path: Path) -> None:
    path = _file(tmp_path)
    path.write_bytes(NEW)
    assert write_atomically(path, NEW, expected=OLD) is False


def _failing(real: Callable[..., Any], at: int, error: BaseException, calls: list[int]) -> Callable[..., Any]:
    def fail(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        if len(calls) == at:
            raise error
        return real(*args, **kwargs)

    return fail


def _outcome(path: Path) -> type[BaseException] | None:
    try:
        write_atomically(path, NEW)
    except BaseException as error:
        return type(error)
    return None


@posix
@pytest.mark.parametrize("kind", ["error", "kill"])
@pytest.mark.parametrize("at", [1, 2])
@pytest.mark.parametrize("step", STEPS)
def test_a_failure_at_any_step_leaves_old_or_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, at: int, kind: str
) -> None:
    path = _file(tmp_path)
    error: BaseException = OSError(errno.ENOSPC, "No space left on device") if kind == "error" else Kill()
    calls: list[int] = []
    with monkeypatch.context() as patch:
        patch.setattr(module.os, step, _failing(getattr(os, step), at, error, calls))
        outcome = _outcome(path)
    assert calls, "the step does not exist any more"
    content = path.read_bytes()
    assert content in (OLD, NEW)
    if outcome is None:
        assert content == NEW
    else:
        assert outcome is (WriteError if kind == "error" else Kill)
    if outcome is WriteError:
        assert content == OLD
    assert os.listdir(tmp_path) == ["train.py"]


DIE_AT = """
import os, sys
from accumlint.source.write import write_atomically
path, step, at = sys.argv[1], sys.argv[2], int(sys.argv[3])
content = open(path + ".new", "rb").read()
real, calls = getattr(os, step), []
def die(*args, **kwargs):
    calls.append(1)
    if len(calls) == at:
        os._exit(9)
    return real(*args, **kwargs)
setattr(os, step, die)
write_atomically(path, content)
os._exit(0)
"""


@posix
@pytest.mark.parametrize("step", STEPS)
def test_a_real_kill_at_any_step_leaves_old_or_new(tmp_path: Path, step: str) -> None:
    path = _file(tmp_path)
    (tmp_path / "train.py.new").write_bytes(NEW)
    for at in (1, 2, 3):
        path.write_bytes(OLD)
        code = subprocess.run([sys.executable, "-c", DIE_AT, path, step, str(at)], timeout=60).returncode
        assert code in ((9,) if at == 1 else (0, 9)), "the step does not exist any more"
        assert path.read_bytes() in ((NEW,) if code == 0 else (OLD, NEW))


@posix
def test_the_content_is_on_disk_before_it_takes_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path)
    steps: list[tuple[str, int]] = []
    real_fsync, real_replace = os.fsync, os.replace

    def fsync(handle: int) -> None:
        is_folder = stat.S_ISDIR(os.fstat(handle).st_mode)
        steps.append(("folder" if is_folder else "file", 0 if is_folder else os.fstat(handle).st_size))
        real_fsync(handle)

    def replace(source: str, target: str) -> None:
        steps.append(("rename", 0))
        real_replace(source, target)

    monkeypatch.setattr(module.os, "fsync", fsync)
    monkeypatch.setattr(module.os, "replace", replace)
    write_atomically(path, NEW)
    assert steps == [("file", len(NEW)), ("rename", 0), ("folder", 0)]


@posix
def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = _file(tmp_path)
    real = os.write
    monkeypatch.setattr(module.os, "write", lambda handle, data: real(handle, data[:7]))
    write_atomically(path, NEW)
    assert path.read_bytes() == NEW


@posix
def test_writers_at_once_do_not_interleave(tmp_path: Path) -> None:
    path = _file(tmp_path)
    contents = [bytes([65 + index]) * 200_000 for index in range(4)]
    code = (
        "import sys; from accumlint.source.write import write_atomically\n"
        "for _ in range(20): write_atomically(sys.argv[1], sys.argv[2].encode() * 200_000)"
    )
    writers = [subprocess.Popen([sys.executable, "-c", code, path, chr(content[0])]) for content in contents]
    seen = set()
    while any(writer.poll() is None for writer in writers):
        seen.add(path.read_bytes())
    assert [writer.returncode for writer in writers] == [0, 0, 0, 0]
    assert len(seen) > 1
    assert seen <= {OLD, *contents}
    assert path.read_bytes() in contents
    assert os.listdir(tmp_path) == ["train.py"]
