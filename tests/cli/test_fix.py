"""Repairs: what is applied, what is left alone, and that bytes are the user's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

LEVELS = "acc201_safe(1)\nacc202_executed(2)\nacc301_proved(3)\nacc302_display(4)\nacc303_none(5)\n"


@pytest.mark.parametrize(
    ("flags", "repaired"),
    [
        (["--fix"], [1]),
        (["--unsafe-fixes"], []),
        (["--fix", "--unsafe-fixes"], [1, 2, 3]),
        (["--fix", "--require", "proved"], [1, 2, 3]),
        (["--fix", "--require", "executed"], [1, 2]),
        (["--fix", "--require", "leaf-checked"], [1]),
        (["--fix", "--ignore", "ACC201"], []),
        ([], []),
    ],
)
def test_what_is_applied(run, folder: Path, flags: list[str], repaired: list[int]) -> None:
    (folder / "a.py").write_text(LEVELS)
    done = run("check", *flags)
    lines = (folder / "a.py").read_text().splitlines()
    assert [number for number, line in enumerate(lines, start=1) if line.startswith("good(")] == repaired
    assert done.returncode == 1
    assert (f"Repaired {len(repaired)} error" in done.stdout) == bool(repaired)


def test_a_shared_repair_is_applied_once_and_everything_else_stays(run, folder: Path) -> None:
    data = "\ufeffwith_shared(1)\r\nx = 'ä'  # comment\r\nwith_shared(2)  # kept".encode()
    (folder / "a.py").write_bytes(data)
    done = run("check", "--fix")
    assert done.returncode == 0
    assert (folder / "a.py").read_bytes() == data.replace(b"with_shared", b"good")
    assert done.stdout.startswith("All checks passed; no training loop in 1 file\nRepaired 2 errors in 1 file\n")
    assert run("check", "--fix").stdout == "All checks passed; no training loop in 1 file\n"


def test_a_file_in_another_encoding_keeps_it(run, folder: Path) -> None:
    (folder / "a.py").write_bytes("# coding: latin-1\nx = 'ä'\nacc201_safe(x)\n".encode("latin-1"))
    assert run("check", "--fix").returncode == 0
    assert (folder / "a.py").read_bytes() == "# coding: latin-1\nx = 'ä'\ngood(x)\n".encode("latin-1")


@pytest.mark.parametrize("comment", ["# noqa", "# noqa: ACC201", "# noqa: E501,ACC2"])
def test_a_suppressed_line_is_never_touched(run, folder: Path, comment: str) -> None:
    text = f"acc201_safe(1)  {comment}\nacc201_safe(2)\n"
    (folder / "a.py").write_text(text)
    assert run("check", "--fix").returncode == 0
    assert (folder / "a.py").read_text() == f"acc201_safe(1)  {comment}\ngood(2)\n"


def test_a_shared_repair_that_would_touch_a_suppressed_line_is_not_applied(run, folder: Path) -> None:
    text = "with_shared(1)\nwith_shared(2)  # noqa: ACC101\n"
    (folder / "a.py").write_text(text)
    assert run("check", "--fix").returncode == 1
    assert (folder / "a.py").read_text() == text


def test_the_noqa_of_another_tool_does_not_protect(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)  # noqa: E501\n")
    run("check", "--fix")
    assert (folder / "a.py").read_text() == "good(1)  # noqa: E501\n"


def test_repairs_that_do_not_end_are_given_up(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc301_endless(acc301_endless(1))\n")
    done = run("check", "--fix")
    assert done.returncode == 1
    (folder / "b.py").write_text("acc301_broken(1)\n")
    done = run("check", "--fix", "b.py")
    assert done.returncode == 2
    assert "internal error: a repair was taken back" in done.stderr
    assert (folder / "b.py").read_text() == "acc301_broken(1)\n"


def test_diff_changes_nothing_and_can_be_applied_by_patch(run, folder: Path) -> None:
    text = "x = 1\nacc201_safe(x)\n"
    (folder / "a.py").write_text(text)
    done = run("check", "--diff")
    assert done.returncode == 1
    assert done.stdout == "--- a.py\n+++ a.py\n@@ -1,2 +1,2 @@\n x = 1\n-acc201_safe(x)\n+good(x)\n"
    assert done.stderr == "Would repair 1 error; 0 errors would be left\n"
    assert (folder / "a.py").read_text() == text
    (folder / "a.py").write_text("acc301_proved(1)\n")
    assert run("check", "--diff").returncode == 0
    assert run("check", "--diff", "--unsafe-fixes").returncode == 1


def test_diff_says_where_the_last_line_end_is_missing(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)")
    assert run("check", "--diff").stdout.endswith(
        "-acc201_safe(1)\n\\ No newline at end of file\n+good(1)\n\\ No newline at end of file\n"
    )


def test_stdin(run) -> None:
    done = run("check", "-", "--stdin-filename", "a.py", stdin="acc201_safe(1)\n")
    assert done.returncode == 1
    assert done.stdout.startswith("a.py:1:1: ACC201")
    done = run("check", "-", "--fix", stdin=b"\xef\xbb\xbfacc201_safe(1)\r\nacc303_none(1)\r\n")
    assert done.returncode == 1
    assert done.stdout == "\ufeffgood(1)\r\nacc303_none(1)\r\n"
    assert done.stderr.startswith("-:2:1: ACC303")


def test_exit_codes_of_repairs(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)\n")
    assert run("check", "--fix", "--exit-non-zero-on-fix").returncode == 1
    assert run("check", "--fix", "--exit-non-zero-on-fix").returncode == 0


def test_a_read_only_file_is_an_error(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(1)\n")
    (folder / "a.py").chmod(0o444)
    done = run("check", "--fix")
    assert done.returncode == 2
    assert "error: a.py: cannot be written: the file is read-only" in done.stderr
    assert (folder / "a.py").read_text() == "acc201_safe(1)\n"


def test_add_noqa(run, folder: Path) -> None:
    (folder / "a.py").write_text("acc201_safe(acc301_none(1))\nx = 1\n")
    assert run("check", "--add-noqa").returncode == 0
    assert (folder / "a.py").read_text() == "acc201_safe(acc301_none(1))  # noqa: ACC201,ACC301\nx = 1\n"
    assert run("check").returncode == 0


def test_unused_suppressions(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1  # noqa: ACC101\nacc201_safe(1)  # noqa: ACC201\n")
    assert run("check").returncode == 0
    done = run("check", "--extend-select", "ACC901", "--output-format", "json")
    entry = json.loads(done.stdout)[0]
    assert (entry["code"], entry["fix"]["applicability"]) == ("ACC901", "safe")
    assert run("check", "--extend-select", "ACC901", "--fix").returncode == 0
    assert (folder / "a.py").read_text() == "x = 1\nacc201_safe(1)  # noqa: ACC201\n"


def test_trust_from_the_configuration(run, folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.accumlint]\nextend-safe-fixes = ["ACC301"]\nextend-unsafe-fixes = ["ACC201"]\n'
    )
    (folder / "a.py").write_text("acc201_safe(1)\nacc301_proved(2)\nacc301_display(3)\n")
    run("check", "--fix")
    assert (folder / "a.py").read_text() == "acc201_safe(1)\ngood(2)\nacc301_display(3)\n"


def test_baseline(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\nacc201_safe(1)\n")
    assert run("check", "--baseline", "known.json", "--write-baseline").returncode == 0
    (folder / "a.py").write_text("import os\n\nx = 1\n\nacc201_safe(1)\nacc301_none(2)\n")
    done = run("check", "--baseline", "known.json")
    assert done.returncode == 1
    assert "ACC301" in done.stdout
    assert "ACC201" not in done.stdout
    assert "1 known finding left out by the baseline" in done.stdout
    (folder / "newer.json").write_text('{"tool": "accumlint", "version": 99, "findings": []}')
    done = run("check", "--baseline", "newer.json")
    assert (done.returncode, done.stdout) == (2, "")
    assert "newer.json: the baseline is of version 99" in done.stderr


def notebook(*cells: str) -> str:
    listed = [
        {"cell_type": "code", "metadata": {}, "outputs": [], "execution_count": None, "source": cell.splitlines(True)}
        for cell in cells
    ]
    return json.dumps({"cells": listed, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}, indent=1)


def test_notebooks(run, folder: Path) -> None:
    text = notebook("%pip install x\n", "y = 1\nacc201_safe(y)\n")
    (folder / "a.ipynb").write_text(text)
    done = run("check")
    assert done.stdout.startswith("a.ipynb:cell 2:2:1: ACC201")
    entry = json.loads(run("check", "--output-format", "json").stdout)[0]
    assert (entry["cell"], entry["location"]) == (2, {"row": 2, "column": 1})
    assert run("check", "--diff").stdout.startswith("--- a.ipynb:cell 2\n")
    run("check", "--fix")
    assert (folder / "a.ipynb").read_text() == text.replace("acc201_safe", "good")
    (folder / "b.ipynb").write_text("{")
    assert run("check").returncode == 2
    julia = {"metadata": {"language_info": {"name": "julia"}}, "cells": [], "nbformat": 4}
    (folder / "b.ipynb").write_text(json.dumps(julia))
    assert run("check").returncode == 0


def test_processes_give_the_same_results(run, folder: Path) -> None:
    for number in range(20):
        (folder / f"a{number:02}.py").write_text("acc201_safe(1)\nwith_shared(2)\nwith_shared(3)\n")
    alone = run("check", "--jobs", "1", "--output-format", "json")
    assert run("check", "--jobs", "3", "--output-format", "json").stdout == alone.stdout
    assert run("check", "--jobs", "3", "--fix").stdout.endswith("Repaired 60 errors in 20 files\n")


@pytest.mark.skipif(sys.platform == "win32", reason="patch")
def test_the_diff_applies(run, folder: Path) -> None:
    (folder / "a.py").write_text("x = 1\nacc201_safe(x)")
    diff = run("check", "--diff").stdout
    done = subprocess.run(["patch", "-p0"], input=diff, text=True, cwd=folder, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert (folder / "a.py").read_text() == "x = 1\ngood(x)"
