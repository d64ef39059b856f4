"""The worker process: what it answers, and what becomes of it when it dies, hangs, or is not waited for."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from pathlib import Path

import pytest

pytest.importorskip("pygls")

from lsprotocol import types

from accumlint.server import remote
from accumlint.server.jobs import Answer, Job, Task
from accumlint.server.positions import column, lines_of, text_edit, units
from accumlint.server.remote import Remote
from accumlint.server.work import changes, do
from accumlint.source.text import SourceText

CHECK = Job(Task.CHECK, "a.py", "x = 1\n")
SLEEP = "import time; time.sleep(600)"


def test_a_worker_that_died_is_started_again() -> None:
    async def scenario() -> None:
        worker = Remote()
        assert (await worker.do(CHECK)).file is not None
        assert worker._process is not None
        os.kill(worker._process.pid, signal.SIGKILL)
        while worker._process.returncode is None:
            await asyncio.sleep(0.01)
        assert (await worker.do(CHECK)).file is not None
        await worker.close()

    asyncio.run(scenario())


def test_a_worker_that_dies_at_its_work_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Answer:
        monkeypatch.setattr(remote, "_START", "import sys; sys.stdin.buffer.read(20)")
        return await Remote().do(CHECK)

    answer = asyncio.run(scenario())
    assert answer.file is not None
    (problem,) = answer.file.problems
    assert problem.internal
    assert "died" in problem.message


def test_a_job_that_takes_too_long_is_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> Answer:
        monkeypatch.setattr(remote, "_START", SLEEP)
        monkeypatch.setattr(remote, "LONGEST", 0.2)
        return await Remote().do(CHECK)

    answer = asyncio.run(scenario())
    assert answer.file is not None
    assert "took longer than" in answer.file.problems[0].message


def test_a_job_that_was_given_up_does_not_hold_up_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        worker = Remote()
        start = remote._START
        monkeypatch.setattr(remote, "_START", SLEEP)
        first = asyncio.ensure_future(worker.do(CHECK))
        await asyncio.sleep(0.3)
        monkeypatch.setattr(remote, "_START", start)
        first.cancel()
        begin = time.monotonic()
        assert (await worker.do(CHECK)).file is not None
        assert time.monotonic() - begin < 20
        await worker.close()

    asyncio.run(scenario())


def test_a_fault_of_ours_is_a_problem_of_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr("accumlint.server.work._answer", fail)
    answer = do(CHECK)
    assert answer.file is not None
    assert answer.file.problems[0].internal
    assert "RuntimeError: broken" in answer.file.problems[0].message


def test_the_configuration_that_was_named(tmp_path: Path) -> None:
    assert "cannot be read" in do(Job(Task.CHECK, "a.py", "", config=str(tmp_path / "none.toml"))).error
    settings = tmp_path / "other.toml"
    settings.write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    answer = do(Job(Task.CHECK, str(tmp_path / "a.py"), "x = 1  # noqa: ACC101\n", config=str(settings)))
    assert answer.file is not None
    assert [finding.code for finding in answer.file.findings] == ["ACC901"]


def test_the_edits_make_the_new_text() -> None:
    from editor import apply

    draw = random.Random(5)

    def text() -> str:
        return "".join(
            draw.choice(("a", "é", "\U0001f600", "b\n", "c\r\n", "\r", "\f", "\u2028", "")) for _ in range(12)
        )

    for _ in range(500):
        old, new = text(), text()
        before, after = (SourceText("a.py", each.encode(), each) for each in (old, new))
        edits = [text_edit(change, lines_of(old), "utf-16") for change in changes(before, after)]
        assert apply(old, edits) == new


@pytest.mark.parametrize(("encoding", "expected"), [("utf-8", 7), ("utf-16", 4), ("utf-32", 3), (None, 4)])
def test_units(encoding: str | None, expected: int) -> None:
    text = "aé\U0001f600"
    assert units(text, encoding) == expected
    assert column(text, expected, encoding) == 3
    assert column(text, expected - 1, encoding) == 2 if encoding != "utf-32" else True
    assert column(text, 99, encoding) == 3
    assert [column(text, units(text[:n], encoding), encoding) for n in range(4)] == [0, 1, 2, 3]


def test_the_last_line_without_an_end() -> None:
    (change,) = changes(SourceText("a.py", b"x\ny", "x\ny"), SourceText("a.py", b"x", "x"))
    assert text_edit(change, lines_of("x\ny"), None).range == types.Range(types.Position(0, 0), types.Position(1, 1))
