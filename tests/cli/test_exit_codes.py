"""0 clean, 1 findings, 2 error; bad input is said in a line, and all other files are still checked."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

FAKE = Path(__file__).parent / "fake_engine.py"
BAD = "x = 1\nacc201_safe(x)\n"


def codes(output: str) -> list[str]:
    return [entry["code"] for entry in json.loads(output)]


def test_clean(run, folder: Path) -> None:
    (folder / "a.py").write_text("loop()\n")
    done = run("check")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "All checks passed; 1 training loop analysed, 0 not reached\n"


def test_an_empty_folder_and_an_empty_file_are_clean(run, folder: Path) -> None:
    assert run("check").returncode == 0
    (folder / "empty.py").write_bytes(b"")
    done = run("check", "empty.py")
    assert (done.returncode, done.stdout) == (0, "All checks passed; no training loop in 1 file\n")


def test_findings(run, folder: Path) -> None:
    (folder / "a.py").write_text(BAD)
    assert run("check").returncode == 1
    assert run("check", "--exit-zero").returncode == 0
    assert run("check", "-qq").stdout == ""
    assert run("check", "-qq").returncode == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check", "--select", "ACC1O1"], '--select: unknown rule code "ACC1O1"; did you mean "ACC101"?'),
        (["check", "--ignore", "E501"], '--ignore: unknown rule code "E501"'),
        (["check", "--per-file-ignores", "a.py"], 'expected PATTERN:CODE, not "a.py"'),
        (["check", "--output-format", "xml"], "'xml' is not one of"),
        (["check", "--sellect", "ACC1"], "--select"),
        (["check", "--select", ","], "--select: no rule code is given"),
        (["check", "--select="], "--select: no rule code is given"),
        (["check", "--add-noqa", "--diff"], "--add-noqa and --diff exclude each other"),
        (["check", "--add-noqa", "--fix"], "--add-noqa and --fix exclude each other"),
        (["check", "--write-baseline", "--diff", "--baseline", "x"], "--write-baseline and --diff exclude each other"),
        (["check", "--isolated", "--config", "x.toml"], "--isolated and --config exclude each other"),
        (["check", "--config", "missing.toml"], "missing.toml: cannot be read: No such file"),
        (["check", "--output-file", "no/such/folder.txt"], "there is no such folder"),
        (["check", "--write-baseline"], "--write-baseline needs --baseline FILE"),
        (["check", "--baseline", "missing.json"], "missing.json: cannot be read"),
        (["check", "-", "a.py"], "stdin (-) cannot be checked together with other paths"),
        (["chekc"], 'no such command "chekc"; did you mean "check"?'),
        (["rule", "ACC1O1"], "did you mean ACC101?"),
        (["rule"], "name one rule, or use --all"),
        (["trace", "missing.py"], "missing.py: cannot be read"),
        (["apis", "no such call"], 'no table and no call contains "no such call"'),
        (["config", "selekt"], 'unknown key "selekt"; did you mean "select"?'),
    ],
)
def test_bad_arguments(run, arguments: list[str], message: str) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in done.stderr


def test_a_path_instead_of_a_command(run, folder: Path) -> None:
    (folder / "a.py").write_text("")
    done = run("a.py")
    assert done.returncode == 2
    assert 'did you mean "accumlint check a.py"?' in done.stderr


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"def f(:\n", "syntax error"),
        (b"print 'python 2'\n", "syntax error"),
        (b"x = 1\0\n", "null byte"),
        (b"x = '\xff'\n", "0xff"),
        (b"# coding: nonsense\n", "nonsense"),
        ("x = 1\n".encode("utf-16"), "UTF-16"),
    ],
)
def test_unreadable_content(run, folder: Path, data: bytes, message: str) -> None:
    (folder / "bad.py").write_bytes(data)
    (folder / "good.py").write_text(BAD)
    done = run("check", "--output-format", "json", "--fix")
    assert done.returncode == 2
    assert done.stderr.startswith("error: bad.py:1:")
    assert message in done.stderr
    assert (folder / "bad.py").read_bytes() == data
    assert (folder / "good.py").read_text() == "x = 1\ngood(x)\n"


def test_paths_that_cannot_be_looked_at(run, folder: Path) -> None:
    (folder / "good.py").write_text(BAD)
    (folder / "dangling.py").symlink_to("nowhere.py")
    done = run("check", ".", "missing.py", "--output-format", "json")
    assert done.returncode == 2
    assert codes(done.stdout) == ["ACC201"]
    assert "error: dangling.py: is a link to nothing" in done.stderr
    assert "error: missing.py: no such file or directory" in done.stderr


def test_a_folder_without_permission(run, folder: Path) -> None:
    prefix = []
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search"]  # permissions bind root no other way
    if os.name != "posix" or (prefix and shutil.which("setpriv") is None):
        pytest.skip("permissions cannot be taken away here")
    (folder / "good.py").write_text(BAD)
    (folder / "secret.py").write_text(BAD)
    closed = folder / "closed"
    closed.mkdir()
    for path in (closed, folder / "secret.py"):
        path.chmod(0)
    try:
        done = run("check", "--output-format", "json", prefix=prefix)
    finally:
        closed.chmod(0o700)
    assert done.returncode == 2
    assert [entry["filename"] for entry in json.loads(done.stdout)] == ["good.py"]
    assert "error: closed: cannot be read: Permission denied" in done.stderr
    assert "error: secret.py: cannot be read: Permission denied" in done.stderr


@pytest.mark.parametrize(("call", "message"), [("crash()", "broken invariant"), ("raising()", "RuntimeError")])
def test_internal_faults_are_said_and_do_not_stop_the_run(run, folder: Path, call: str, message: str) -> None:
    (folder / "a.py").write_text(f"{call}\n")
    (folder / "b.py").write_text(BAD)
    done = run("check", "--output-format", "json")
    assert done.returncode == 2
    assert codes(done.stdout) == ["ACC201"]
    assert f"error: a.py{':1:1' if call == 'crash()' else ''}: internal error: {message}" in done.stderr
    assert "please report" in done.stderr or call == "crash()"


def test_the_traceback_is_shown_on_request(run, folder: Path) -> None:
    (folder / "a.py").write_text("raising()\n")
    assert "Traceback" in run("check", env={"ACCUMLINT_DEBUG": "1"}).stderr


def test_unwritable_report(run, folder: Path) -> None:
    (folder / "a.py").write_text(BAD)
    done = run("check", "--fix", "--output-file", ".")
    assert done.returncode == 2
    assert (folder / "a.py").read_text() == BAD


def test_a_reader_that_goes_away(folder: Path) -> None:
    (folder / "a.py").write_text(BAD * 5000)
    command = f"{sys.executable} {FAKE} check --isolated | head -n 1"
    done = subprocess.run(command, shell=True, capture_output=True, text=True, cwd=folder, check=False)
    assert done.stdout.startswith("a.py:2:1: ACC201")
    assert done.stderr == ""


@pytest.mark.parametrize("name", ["click", "torch", "json", "rich", "tokenize"])
def test_nothing_is_imported_from_the_folder_of_the_user(run, folder: Path, name: str) -> None:
    """`python -m` puts the working folder first on the path: a script there may have the name of a library."""
    (folder / f"{name}.py").write_text("raise SystemExit('ran')\n")
    (folder / "a.py").write_text("import torch\nfor x in y:\n    loss.backward()\n    optimizer.step()\n")
    done = run("check", "a.py", fake=False)
    assert (done.returncode, done.stderr) == (0, "")
