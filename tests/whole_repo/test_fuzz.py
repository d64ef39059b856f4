"""Some of what `scripts/fuzz.py` does at length: odd texts raise nothing and round-trip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_odd_texts_are_checked_or_refused(tmp_path: Path) -> None:
    trees = [str(ROOT / name) for name in ("samples", "tests/cases/dev", "tests/quality/snippets")]
    command = [sys.executable, "-W", "ignore", str(ROOT / "scripts" / "fuzz.py"), *trees, "--inputs", "250"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1200, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    counts = {what: int(count) for count, _, what in (part.strip().partition(" ") for part in _parts(done.stdout))}
    assert counts.pop("failed") == 0
    assert sum(counts.values()) == 250
    assert counts["found"] >= 40, "the interpreter saw what the statements were made into"
    assert counts["clean"] >= 20
    assert counts["refused as text"] >= 20


def _parts(printed: str) -> list[str]:
    return printed.strip().splitlines()[-1].replace(" ;", ",").replace(";", ",").split(", ")
