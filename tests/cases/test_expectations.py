"""The findings in each case and each sample are exactly those that its marks say, line by line.

Marks: `# expect: ACC101, ACC304` at a line's end for codes that are on by default, `# expect-optin: ACC401` for codes
reported once selected. `score.py` prints the same comparison as a table.
"""

from __future__ import annotations

import functools
import json
import os
import re
import resource
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
FOLDERS = (HERE / "dev", ROOT / "samples")
OPT_IN = "ACC401,ACC402,ACC403"
MARK = re.compile(r"#\s*expect(?P<optin>-optin)?:\s*(?P<codes>ACC\d{3}(?:\s*,\s*ACC\d{3})*)\s*$")

Place = tuple[int, str]


def marked(path: Path, optin: bool) -> set[Place]:
    """{(line, code)} written in the file."""
    places: set[Place] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = MARK.search(line)
        if match and bool(match["optin"]) == optin:
            places |= {(number, code.strip()) for code in match["codes"].split(",")}
    return places


def limit_memory() -> None:
    """A runaway analysis fails by itself and leaves the machine alone."""
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))


@functools.cache
def run(folder: Path, select: str | None) -> subprocess.CompletedProcess[str]:
    """One run of the command for all files of the folder."""
    arguments = ["--select", select] if select else []
    return subprocess.run(
        [sys.executable, "-m", "accumlint", "check", "--isolated", "--output-format", "json", *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
        preexec_fn=limit_memory,
    )


def reported(path: Path, select: str | None) -> set[Place]:
    """{(line, code)} that the command reports for the file."""
    rows = json.loads(run(path.parent, select).stdout or "[]")
    return {(row["location"]["row"], row["code"]) for row in rows if Path(row["filename"]).name == path.name}


FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.py"))]


@pytest.mark.xdist_group("expectations")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_findings_are_those_marked(path: Path) -> None:
    assert reported(path, None) == marked(path, optin=False)
    assert reported(path, OPT_IN) == marked(path, optin=True)


@pytest.mark.xdist_group("expectations")
@pytest.mark.parametrize("select", [None, OPT_IN])
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_every_file_can_be_checked(folder: Path, select: str | None) -> None:
    done = run(folder, select)
    assert done.returncode in (0, 1), done.stderr


def test_index_agrees_with_the_marks() -> None:
    index = json.loads((HERE / "dev" / "index.json").read_text(encoding="utf-8"))
    assert sorted(index) == sorted(path.name for path in (HERE / "dev").glob("*.py"))
    for name, entry in index.items():
        for key, optin in (("codes", False), ("optin", True)):
            assert {(line, code) for code, line in entry[key]} == marked(HERE / "dev" / name, optin), name


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_a_file_without_marks_says_so(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    silent = not marked(path, optin=False) and not marked(path, optin=True)
    assert text.startswith("# expect: nothing") == silent
