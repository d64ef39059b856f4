"""Run the command line as users do: as a process, in a folder of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

FAKE = Path(__file__).parent / "fake_engine.py"
Result = subprocess.CompletedProcess[str]
Runner = Callable[..., Result]


def _environment(extra: dict[str, str]) -> dict[str, str]:
    dropped = ("NO_COLOR", "FORCE_COLOR", "ACCUMLINT_DEBUG")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return {**kept, "PYTHONIOENCODING": "utf-8", "COLUMNS": "120", **extra}


def limit_memory() -> None:
    """Of a process under test, so that a fault in it does not take the machine along."""
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (4 << 30, 4 << 30))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory; a pyproject.toml above it cannot reach in."""
    (tmp_path / "pyproject.toml").write_text("[tool.accumlint]\n")
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


@pytest.fixture
def run(folder: Path) -> Runner:
    """`run("check", ".", stdin=..., env=...)` with the stand-in engine; `fake=False` for the real one, `module` another
    tool."""

    def call(
        *arguments: str,
        stdin: str | bytes = "",
        fake: bool = True,
        module: str = "",
        prefix: list[str] | None = None,
        env: dict[str, str] | None = None,
    ) -> Result:
        start = [sys.executable, str(FAKE)] if fake and not module else [sys.executable, "-m", module or "accumlint"]
        data = stdin.encode() if isinstance(stdin, str) else stdin
        # What the stand-in finds must not be found again by the real engine.
        kept = {"ACCUMLINT_CACHE_DIR": str(folder.parent / "of_the_stand_in")} if fake and not module else {}
        done = subprocess.run(
            [*(prefix or []), *start, *arguments],
            input=data,
            capture_output=True,
            cwd=folder,
            env=_environment({**kept, **(env or {})}),
            timeout=120,
            check=False,
            preexec_fn=limit_memory,
        )
        out, err = done.stdout.decode("utf-8"), done.stderr.decode("utf-8")
        assert "Traceback" not in err or (env or {}).get("ACCUMLINT_DEBUG"), err
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return call
