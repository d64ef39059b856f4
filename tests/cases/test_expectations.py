"""The findings in each case and each sample are exactly those that its marks say, line by line.

Marks: `# expect: ACC101, ACC304` at a line's end for codes that are on by default, `# expect-optin: ACC401` for codes
reported once selected. `score.py` prints the same comparison as a table.
"""

from __future__ import annotations

import functools
import json
import os
import re
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


@functools.cache
def reported(folder: Path, select: str | None) -> dict[str, set[Place]]:
    """{file name: {(line, code)}} that the command reports for the folder: one run for all its files."""
    arguments = ["--select", select] if select else []
    done = subprocess.run(
        [sys.executable, "-m", "accumlint", "check", "--isolated", "--output-format", "json", *arguments, str(folder)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode in (0, 1), done.stderr
    places: dict[str, set[Place]] = {}
    for row in json.loads(done.stdout or "[]"):
        places.setdefault(Path(row["filename"]).name, set()).add((row["location"]["row"], row["code"]))
    return places


FILES = [path for folder in FOLDERS for path in sorted(folder.glob("*.py"))]


@pytest.mark.xdist_group("expectations")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_findings_are_those_marked(path: Path) -> None:
    assert reported(path.parent, None).get(path.name, set()) == marked(path, optin=False)
    assert reported(path.parent, OPT_IN).get(path.name, set()) == marked(path, optin=True)


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
