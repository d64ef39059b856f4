"""What repairs write is Python for every Python that is supported: each that is installed compiles it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from accumlint.analysis import Options, check_source
from accumlint.repair.rewrite import apply_edits
from accumlint.source.text import SourceText
from tests.generated.generate import generate

ROOT = Path(__file__).parents[2]
CASES = [*sorted((ROOT / "tests" / "cases" / "dev").glob("acc*.py")), *sorted((ROOT / "samples").glob("*.py"))]
SUPPORTED = [(3, minor) for minor in range(10, 15)]
VERSION = "import sys; print(sys.version_info[0], sys.version_info[1])"
COMPILE = """
import json, sys, warnings
warnings.simplefilter("error")
failed = []
for name, text in json.load(sys.stdin).items():
    try:
        compile(text, name, "exec", dont_inherit=True)
    except (SyntaxError, ValueError, Warning) as error:
        failed.append("%s: %s" % (name, error))
print(json.dumps(failed))
"""


@cache
def pythons() -> dict[tuple[int, int], str]:
    """{version: command} of the supported Pythons of this machine: this one, those on the path, those of pyenv."""
    found = {(sys.version_info[0], sys.version_info[1]): sys.executable}
    folder = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"), "versions")
    for version in SUPPORTED:
        name = f"{version[0]}.{version[1]}"
        commands = [shutil.which(f"python{name}"), *map(str, sorted(folder.glob(f"{name}*/bin/python")))]
        for command in filter(None, commands):
            done = subprocess.run([command, "-c", VERSION], capture_output=True, text=True, check=False)
            if done.returncode == 0 and tuple(map(int, done.stdout.split())) == version:
                found.setdefault(version, command)
    return found


@cache
def repaired() -> dict[str, str]:
    """{name: text} of repaired programs: the cases and samples, and generated ones by both strategies."""
    texts = {path.name: path.read_text(encoding="utf-8") for path in CASES}
    texts |= {f"seed {seed}": generate(seed).source for seed in range(3000, 3020)}
    found = {}
    for name, text in texts.items():
        for strategy in ("auto", "precount") if name.startswith("seed") else ("auto",):
            source = SourceText.from_bytes("program.py", text.encode())
            findings = check_source(source, Options(repair=True, strategy=strategy)).findings
            fixes = {id(finding.fix): finding.fix for finding in findings if finding.fix is not None}
            for number, fix in enumerate(fixes.values()):
                found[f"{name}, {strategy}, {number}"] = apply_edits(text, fix.edits)
    return found


@pytest.mark.xdist_group("compiles")  # the repairs are made once, in one worker
@pytest.mark.parametrize("version", SUPPORTED, ids=lambda version: f"{version[0]}.{version[1]}")
def test_repaired_programs_compile(version: tuple[int, int]) -> None:
    if version not in pythons():
        pytest.skip("this Python is not installed")
    programs = repaired()
    assert len(programs) >= 50
    command = [pythons()[version], "-c", COMPILE]
    done = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == []


def test_this_python_is_among_them() -> None:
    assert sys.version_info[:2] in pythons()
    assert sys.version_info[:2] in SUPPORTED


def test_a_program_that_does_not_compile_is_told() -> None:
    command = [sys.executable, "-c", COMPILE]
    programs = {"right": "x = 1\n", "wrong": "def f(:\n", "newer": "x = 1 if y is 'a' else 2\n"}
    done = subprocess.run(command, input=json.dumps(programs), capture_output=True, text=True, check=True)
    assert [line.partition(":")[0] for line in json.loads(done.stdout)] == ["wrong", "newer"]
