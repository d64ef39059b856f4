"""The engine of `accumlint verify`: the user's own loop, model and data, before and after a repair.

This runs the user's code, which nothing else in accumlint does: in a subprocess, limited in time and memory, and only
when asked to. A factory is a function that returns a dict (or an object with these attributes):

    def factory():
        return {
            "model": Net(), "microbatches": [...],                # as for accumcheck
            "loss_sum": lambda model, mb: ..., "count": lambda mb: ...,
            "arguments": lambda model, microbatches, optimizer: {"net": model, "loader": microbatches, "o": optimizer},
            # optional: "optimizer", "accumulation_steps", "max_norm", and the other options of accumcheck
        }

`arguments` maps to the parameters of the checked function; without it, the function gets (model, microbatches,
optimizer). This module does not import torch.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Any

from accumlint.harness.errors import FactoryError
from accumlint.harness.runner import GIB

CHILD = Path(__file__).with_name("verify_child.py")


class Outcome(Enum):
    EQUIVALENT = "equivalent"
    DIFFERENT = "not equivalent"
    FAILED = "could not be checked"  # `error` says why: a factory that raises, a loop that never steps, ...
    TIMEOUT = "timed out"
    CRASHED = "crashed"
    NO_TORCH = "torch is missing"


@dataclass(frozen=True)
class Verification:
    """The result for one text of the loop. `report` is `Report.to_dict()`, `text` its printed form."""

    outcome: Outcome
    report: dict[str, Any] = field(default_factory=dict)
    text: str = ""
    error: str = ""
    error_type: str = ""
    output: str = ""

    @property
    def equivalent(self) -> bool:
        return self.outcome is Outcome.EQUIVALENT


@dataclass(frozen=True)
class RepairVerification:
    """Both texts. `confirmed`: the repaired loop makes the full-batch update and the original does not."""

    before: Verification
    after: Verification

    @property
    def confirmed(self) -> bool:
        return self.after.equivalent and self.before.outcome is Outcome.DIFFERENT


def split_target(target: str) -> tuple[Path, str]:
    """Split `path.py::function` or `path.py::Class.method`. Raises FactoryError."""
    path, separator, name = target.partition("::")
    if not separator or not name or not all(part.isidentifier() for part in name.split(".")):
        raise FactoryError(f"expected path.py::function, got {target!r}")
    if not Path(path).is_file():
        raise FactoryError(f"no such file: {path}")
    return Path(path), name


def verify(
    target: str,
    factory: str,
    *,
    text: str | None = None,
    timeout: float = 120.0,
    memory: int | None = 8 * GIB,
    output: int = 10_000,
) -> Verification:
    """Check `path.py::function` with `factory` (`module:function` or `path.py:function`) in a subprocess.

    `text` is checked in place of the file's own: a repaired source that is not written yet. `timeout` is in seconds of
    wall clock and covers all processes that the code starts; `memory` is bytes of address space above torch's own.
    Raises FactoryError if target or factory are no such references; all that happens later is the result.
    """
    path, name = split_target(target)
    module, separator, function = factory.rpartition(":")
    if not separator or not module or not function.isidentifier():
        raise FactoryError(f"expected module:function for the factory, got {factory!r}")
    source = path.read_text(encoding="utf-8") if text is None else text
    with tempfile.TemporaryDirectory(prefix="accumlint-verify-") as folder:
        answer = Path(folder) / "answer.json"
        request = {
            "path": str(path.resolve()), "name": name, "source": source, "module": module, "function": function,
            "memory": memory, "cpu": timeout, "answer": str(answer), "sys_path": [str(Path.cwd()), *sys.path],
        }  # fmt: skip
        with open(Path(folder) / "output.txt", "w+b") as stream:
            process = subprocess.Popen(
                [sys.executable, str(CHILD)],
                stdin=subprocess.PIPE,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                process.communicate(json.dumps(request).encode(), timeout=timeout)
                is_late = False
            except subprocess.TimeoutExpired:
                is_late = True
            finally:
                _end(process)
            stream.seek(0)
            noise = stream.read(output).decode("utf-8", "replace")
        if is_late:
            return Verification(Outcome.TIMEOUT, error=f"no result within {timeout:g} s", output=noise)
        if not answer.exists():
            return Verification(Outcome.CRASHED, error=f"the process ended with {process.returncode}", output=noise)
        data = json.loads(answer.read_text(encoding="utf-8"))
    return Verification(
        Outcome(data["outcome"]),
        report=data.get("report", {}),
        text=data.get("text", ""),
        error=data.get("error", ""),
        error_type=data.get("type", ""),
        output=noise,
    )


def verify_repair(
    target: str, factory: str, repaired: str, *, timeout: float = 120.0, memory: int | None = 8 * GIB
) -> RepairVerification:
    """Check the file's own text and the repaired one."""
    before = verify(target, factory, timeout=timeout, memory=memory)
    return RepairVerification(before, verify(target, factory, text=repaired, timeout=timeout, memory=memory))


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and what it started (they share its process group)."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    process.wait()
