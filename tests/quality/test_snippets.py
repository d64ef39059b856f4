"""Small loops that show what was once read wrongly in released packages: found exactly as their marks say.

The folder `scripts` holds training scripts in many dresses, written from the rules without a look at the tool: some
for each code, and as many right ones.

Marks as in tests/cases: `# expect: ACC101, ACC304` at a line's end, `# expect-optin: ACC402` for codes that are
reported once selected; `# expect: nothing` on a line of its own says that a file without marks is meant so.
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

ROOT = Path(__file__).resolve().parents[2]
SNIPPETS = Path(__file__).resolve().parent / "snippets"
FILES = sorted(SNIPPETS.rglob("*.py"))
OPT_IN = "ACC401,ACC402,ACC403,ACC404"
MARK = re.compile(r"#\s*expect(?P<optin>-optin)?:\s*(?P<codes>nothing|ACC\d{3}(?:\s*,\s*ACC\d{3})*)\s*$")

Place = tuple[int, str]


def marked(path: Path, optin: bool) -> set[Place]:
    """{(line, code)} that the marks of a file ask for."""
    places: set[Place] = set()
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        match = MARK.search(line)
        if match and match["codes"] != "nothing" and bool(match["optin"]) == optin:
            places |= {(number, code.strip()) for code in match["codes"].split(",")}
    return places


MARKED_OPT_IN = [path for path in FILES if marked(path, optin=True) and not path.name.startswith("FN_")]


@functools.cache
def reported(select: str) -> dict[str, set[Place]]:
    """{(line, code)} of each file, from one run over the folder."""
    command = [sys.executable, "-m", "accumlint", "check", "--isolated", "--output-format", "json"]
    done = subprocess.run(
        [*command, *select.split(), str(SNIPPETS)],
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])},
    )
    assert done.returncode in (0, 1), done.stderr
    found: dict[str, set[Place]] = {path.name: set() for path in FILES}  # names are unique over the folders
    for row in json.loads(done.stdout):
        found[Path(row["filename"]).name].add((row["location"]["row"], row["code"]))
    return found


@pytest.mark.xdist_group("snippets")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_findings(path: Path) -> None:
    if path.name.startswith("FN_"):  # a known miss: the day it is found, the file loses its prefix
        assert not reported("")[path.name] & marked(path, optin=False)
        assert not reported(f"--select {OPT_IN}")[path.name] & marked(path, optin=True)
    else:
        assert reported("")[path.name] == marked(path, optin=False)


@pytest.mark.xdist_group("snippets")
@pytest.mark.parametrize("path", MARKED_OPT_IN, ids=lambda path: path.stem)
def test_opt_in_findings(path: Path) -> None:
    wanted = {code for _, code in marked(path, optin=True)}
    found = {place for place in reported(f"--select {OPT_IN}")[path.name] if place[1] in wanted}
    assert found == marked(path, optin=True)


def test_every_snippet_is_marked() -> None:
    for path in FILES:
        text = path.read_text(encoding="utf-8")
        assert re.match(r"(# expect: nothing\n)?# mechanism: ", text), path.name
        assert any(MARK.search(line) for line in text.splitlines()), path.name
