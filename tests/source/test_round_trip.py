"""Bytes are the user's: whatever the file is, nothing changes but the lines of a repair.

`ACCUMLINT_TREES` names more folders to read, separated as in `PATH`.
"""

from __future__ import annotations

import ast
import os
import random
import sysconfig
import warnings
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from accumlint.analysis import Options, check_source
from accumlint.repair.rewrite import apply_edits
from accumlint.source.text import SourceError, SourceText, split_keeping_ends, split_lines

hypothesmith = pytest.importorskip("hypothesmith")

LINE_ENDS = {"LF": ["\n"], "CRLF": ["\r\n"], "CR": ["\r"], "mixed": ["\n", "\r\n", "\r"]}
COOKIES = {"": "utf-8", "# coding: utf-8\n": "utf-8", "#!/usr/bin/python\n# -*- coding: latin-1 -*-\n": "latin-1"}
LOOP = """
def train(model, loader, optimizer, K):
    '''één'''
    for i, (x, y) in enumerate(loader):
        optimizer.zero_grad()  # each time
        loss = torch.nn.functional.cross_entropy(model(x), y) / K
        loss.backward()
        if (i + 1) % K == 0:

            optimizer.step()  # the update
"""
slow_to_draw = settings(suppress_health_check=list(HealthCheck))


@pytest.fixture(autouse=True)
def _no_warnings() -> None:
    """Drawn programs call strings and compare numbers with `is`."""
    warnings.simplefilter("ignore")


def dressed(text: str, ends: str, seed: int, final: bool, tabs: bool, feeds: bool) -> str:
    """The text with other line ends, perhaps without the last one, with tabs as indentation and form feeds."""
    chance = random.Random(seed)
    lines = []
    for line in text.replace("\r\n", "\n").replace("\r", "\n").splitlines(keepends=False) or [""]:
        body = line.lstrip(" ")
        indent = "\t" * (len(line) - len(body)) if tabs else line[: len(line) - len(body)]
        lines.append(("\f" if feeds and not indent and chance.random() < 0.3 else "") + indent + body)
    joined = "".join(line + chance.choice(LINE_ENDS[ends]) for line in lines)
    return joined if final else joined.rstrip("\r\n")


PROGRAMS = hypothesmith.from_grammar(auto_target=False) | hypothesmith.from_node(auto_target=False)
DRESSES = st.tuples(st.sampled_from(sorted(LINE_ENDS)), st.integers(0, 99), st.booleans(), st.booleans(), st.booleans())


@slow_to_draw
@given(PROGRAMS, DRESSES, st.sampled_from(sorted(COOKIES)), st.booleans())
def test_a_drawn_program_comes_back_and_a_check_of_it_ends(
    program: str, dress: tuple[str, int, bool, bool, bool], cookie: str, mark: bool
) -> None:
    encoding = COOKIES[cookie]
    text = dressed(cookie + program, *dress).encode(encoding, "ignore").decode(encoding).replace("\0", "")
    if text.startswith("\ufeff"):
        text = text[1:]
    data = (b"\xef\xbb\xbf" if mark and encoding == "utf-8" else b"") + text.encode(encoding)
    try:
        source = SourceText.from_bytes("a.py", data)
    except SourceError as error:
        assert "encoding" in error.message, "a comment of the program may name a codec"  # noqa: PT017
        return
    assert source.encode(source.text) == data
    assert "".join(split_keeping_ends(source.text)) == source.text
    report = check_source(source, Options(repair=True))
    assert not [problem for problem in report.problems if problem.internal]
    assert not report.findings


def repaired(text: str) -> str | None:
    """The text with all its repairs, None if there is none."""
    report = check_source(SourceText.from_bytes("a.py", text.encode("utf-8", "surrogatepass")), Options(repair=True))
    assert not [problem for problem in report.problems if problem.internal]
    fixes = {id(finding.fix): finding.fix for finding in report.findings if finding.fix is not None}
    return apply_edits(text, [edit for fix in fixes.values() for edit in fix.edits]) if fixes else None


SURROUNDED: list[bool] = []


@settings(parent=slow_to_draw, max_examples=40, derandomize=True, phases=[Phase.generate])
@given(PROGRAMS, PROGRAMS, DRESSES)
def surroundings_stay(before: str, after: str, dress: tuple[str, int, bool, bool, bool]) -> None:
    ends, seed, final, tabs, feeds = dress
    start = dressed(f"{before}\nimport torch\n", ends, seed, True, tabs, feeds)
    loop = dressed(LOOP, ends, seed, True, tabs, False)
    end = dressed(after, ends, seed, final, tabs, feeds)
    text = start + loop + end
    if loop.endswith("\r") and end.startswith("\n"):
        return  # they are one line end, of which neither part is its own
    try:
        ast.parse(text)
    except (SyntaxError, ValueError):
        return  # what was drawn stands at the top of a file only
    new = repaired(text)
    SURROUNDED.append(new is not None)
    if new is None:
        return  # the drawn part may give another meaning to a name of the loop
    assert new.startswith(start)
    assert new.endswith(end)
    ast.parse(new)
    middle = split_keeping_ends(new[len(start) : len(new) - len(end)])
    changed = ("zero_grad", "loss", "if (")
    kept = [line for line in split_lines(loop) if not any(word in line for word in changed)]
    assert [bare for line in middle if (bare := line.rstrip("\r\n")) in kept] == kept
    assert [sum(word in line for line in middle) for word in ("# each time", "# the update", "zero_grad")] == [1, 1, 1]
    assert {line[len(line.rstrip("\r\n")) :] for line in middle} <= set(LINE_ENDS[ends])


def test_a_repair_changes_its_own_lines_only() -> None:
    """Whatever stands around the loop, and whatever its line ends and indentation are."""
    SURROUNDED.clear()
    surroundings_stay()
    assert sum(SURROUNDED) >= 15, SURROUNDED


TREES = {
    "the standard library": (Path(sysconfig.get_path("stdlib")), 500),
    "site-packages": (Path(sysconfig.get_path("purelib")), 300),
    **{name: (Path(name), 1) for name in os.environ.get("ACCUMLINT_TREES", "").split(os.pathsep) if name},
}


@pytest.mark.parametrize("tree", TREES)
def test_every_file_comes_back(tree: str) -> None:
    """Read and written unchanged, and by the path that a change would take, each file is what it was."""
    folder, least = TREES[tree]
    visited = refused = 0
    for path in sorted(folder.rglob("*.py")):
        if tree == "the standard library" and "site-packages" in path.parts:
            continue
        data = path.read_bytes()
        try:
            source = SourceText.from_bytes(str(path), data)
        except SourceError:
            with pytest.raises((SyntaxError, ValueError)):
                compile(data, str(path), "exec")
            refused += 1
            continue
        visited += 1
        assert source.encode(source.text) == data, path
        assert source.bom + source.text.encode(source.encoding) == data, path
        assert "".join(split_keeping_ends(source.text)) == source.text, path
    assert visited >= least
    assert refused <= visited / 50
