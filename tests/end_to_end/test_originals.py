"""The driver finds in each script what its marks say, and nothing in the right ones."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from drive import drive
from truth import (
    CASES,
    FAULTS,
    NOT_DRIVEN,
    SAMPLES,
    SHAPES,
    codes_of,
    possible_faults,
    run_scenarios,
    scenarios,
    scripts,
)

SCRIPTS = dict(scripts())


@pytest.mark.parametrize("name", SCRIPTS)
def test_script_is_as_wrong_as_its_marks_say(name: str) -> None:
    text = SCRIPTS[name].read_text(encoding="utf-8")
    codes = codes_of(text)
    reports = run_scenarios(name, text)
    shown = set().union(*(report.faults for report in reports.values()))
    details = "\n".join(f"[{scenario}] {report.describe()}" for scenario, report in reports.items())

    for code in sorted(codes):
        assert not FAULTS[code] or FAULTS[code] & shown, f"{code} does not show\n{details}"
    assert shown <= possible_faults(codes), f"not explained by {sorted(codes)}\n{details}"


@pytest.mark.parametrize("name", [name for name, path in SCRIPTS.items() if not codes_of(path.read_text("utf-8"))])
def test_every_clip_of_a_right_script_is_active(name: str) -> None:
    """An inactive clip would let errors of order pass."""
    for report in run_scenarios(name, SCRIPTS[name].read_text("utf-8")).values():
        assert all(step.active_clips == step.clips for step in report.steps if step.reference_norm > 0)


def test_every_script_is_driven_or_excused() -> None:
    for folder in (CASES, SAMPLES, SHAPES):
        for path in folder.glob("*.py"):
            assert (path.stem in SCRIPTS) != (path.stem in NOT_DRIVEN), path.stem
    assert all(NOT_DRIVEN.values()), "an excuse has a reason"


def test_samples_run_as_scripts() -> None:
    """All in one process, to start torch once."""
    run_all = (
        "import runpy, sys\n"
        "for path in sys.argv[1:]:\n"
        "    print('>>>', path, flush=True)\n"
        "    sys.argv = [path]\n"
        "    runpy.run_path(path, run_name='__main__')\n"
    )
    paths = sorted(SAMPLES.glob("*.py"))
    done = subprocess.run(
        [sys.executable, "-c", run_all, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
    )
    assert done.returncode == 0, done.stdout[-500:] + done.stderr[-2000:]
    outputs = done.stdout.split(">>> ")[1:]
    assert [Path(out.split("\n", 1)[0]) for out in outputs] == paths
    assert all(out.split("\n", 1)[1].strip() for out in outputs), "a sample prints nothing"


def test_right_and_wrong_twins_differ_by_one_line() -> None:
    """The driver tells a single changed line: it is neither blind nor over-eager."""
    name = "ok_deferred_sum_and_count"
    right = SCRIPTS[name].read_text("utf-8")
    build = scenarios(name)["base"]
    assert drive(right, build).right
    mutants = {
        "            n_tokens = 0\n": "",  # the count is not reset
        "n_tokens += int(": "n_tokens = int(",  # the last microbatch's count
        "int((y != -100).sum())": "y.numel()",  # padding is counted
        'reduction="sum"': 'reduction="mean"',
        " or i == last": "",  # no flush
        "1.0 / max(n_tokens, 1)": "1.0 / accum",
        "            optimizer.zero_grad()\n": "",
    }
    for old, new in mutants.items():
        assert old in right
        assert not drive(right.replace(old, new), build).right, f"{old!r} -> {new!r}"
