"""What is printed where: formats, colour, statistics, and what is imported for it."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

TEXT = "def f():\n    loop()\n    lost()\n    acc201_safe(1)\n    acc301_proved(2)\n    acc201_none(3)\n"


@pytest.fixture
def _file(folder: Path) -> None:
    (folder / "a.py").write_text(TEXT)


@pytest.mark.usefixtures("_file")
def test_full(run) -> None:
    done = run("check")
    blocks = done.stdout.split("\n\n")
    assert blocks[0].splitlines() == [
        "a.py:4:5: ACC201 each target weighs 2.5x",
        "  |",
        "2 |     loop()",
        "3 |     lost()",
        "4 |     acc201_safe(1)",
        "  |     ^^^^^^^^^^^",
        "   = counts differ because: ignore_index=-100 (line 1)",
        "   = counts differ because: a mask",
        "   = level: assumed",
        "   = assumes: the clip is active",
        "   = help: weight by valid targets",
        "   = repair: unsafe (proved): Move the call",
        "     proved: interpreted again, the repaired loop meets the contract: one full-batch update a window",
        "     assumes: K is positive",
        "     missing for safe: the leaf was not checked",
        "     3       lost()",
        "     4 -     acc201_safe(1)",
        "       +     good(1)",
        "     5       acc301_proved(2)",
    ]
    assert "   = repair: none: the boundary is not visible" in blocks[2]
    assert blocks[3].splitlines() == [
        "Found 3 errors in 1 file; 1 training loop analysed, 1 not reached (see -v)",
        "2 repairs planned: --confirm executes them with torch, --fix applies what is safe",
    ]


@pytest.mark.usefixtures("_file")
def test_full_with_execution(run) -> None:
    shown = run("check", "--confirm", "--select", "ACC201").stdout
    assert "a.py:4:5: ACC201 [*] each target weighs 2.5x" in shown
    assert "   = repair: safe (proved, executed, leaf-checked): Move the call" in shown
    assert "executed: gradient error 2e-16 (limit 1e-12); the unrepaired loop is off by 0.37 [torch 2.13.0]" in shown
    assert shown.endswith("1 repair: 1 safe (--fix applies it)\n")


@pytest.mark.usefixtures("_file")
def test_verbose_lists_the_loops_that_were_not_reached(run) -> None:
    shown = run("check", "-v").stdout
    assert "a.py:3:5: loop not analysed: the budget was spent\n" in shown
    assert "see -v" not in shown
    done = run("check", "-v", "--output-format", "json")
    assert "a.py:3:5: loop not analysed" in done.stderr
    json.loads(done.stdout)


@pytest.mark.usefixtures("_file")
def test_concise_grouped_and_statistics(run) -> None:
    assert run("check", "-q", "--output-format", "concise").stdout.splitlines() == [
        "a.py:4:5: ACC201 each target weighs 2.5x",
        "a.py:5:5: ACC301 each target weighs 2.5x",
        "a.py:6:5: ACC201 each target weighs 2.5x",
    ]
    assert run("check", "-q", "--output-format", "grouped").stdout.splitlines()[:2] == [
        "a.py:",
        "  4:5  ACC201 each target weighs 2.5x",
    ]
    assert run("check", "-q", "--statistics").stdout == "2  ACC201  name-201\n1  ACC301  name-301\n"
    counted = json.loads(run("check", "--statistics", "--output-format", "json").stdout)
    assert counted[0] == {"code": "ACC201", "name": "name-201", "count": 2}


@pytest.mark.usefixtures("_file")
def test_output_file(run, folder: Path) -> None:
    done = run("check", "--output-format", "json", "--output-file", "report.json")
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "")
    assert len(json.loads((folder / "report.json").read_text())) == 3


@pytest.mark.usefixtures("_file")
@pytest.mark.parametrize(
    ("flags", "environment", "coloured"),
    [
        ([], {}, False),
        (["--color"], {}, True),
        ([], {"FORCE_COLOR": "1"}, True),
        ([], {"FORCE_COLOR": "1", "NO_COLOR": "1"}, False),
        (["--color"], {"NO_COLOR": "1"}, True),
        (["--no-color"], {"FORCE_COLOR": "1"}, False),
    ],
)
def test_colour(run, flags: list[str], environment: dict[str, str], coloured: bool) -> None:
    assert ("\x1b[" in run("check", *flags, env=environment).stdout) == coloured


@pytest.mark.usefixtures("_file")
@pytest.mark.parametrize("environment", [{}, {"NO_COLOR": "1"}])
def test_a_terminal_is_coloured_unless_no_color(folder: Path, environment: dict[str, str]) -> None:
    main, terminal = pty.openpty()
    fake = Path(__file__).parent / "fake_engine.py"
    env = {**os.environ, "TERM": "xterm-256color", **environment}
    with subprocess.Popen([sys.executable, str(fake), "check"], stdout=terminal, stderr=terminal, cwd=folder, env=env):
        os.close(terminal)
        shown = b""
        while True:
            try:
                shown += os.read(main, 65536)
            except OSError:
                break
    os.close(main)
    assert (b"\x1b[" in shown) == (not environment)
    assert b"ACC201" in shown


def test_a_file_name_cannot_move_the_cursor(run, folder: Path) -> None:
    (folder / "a\x1b[31m.py").write_text("acc201_safe(1)  # \x1b[2J\n")
    shown = run("check").stdout
    assert "\x1b" not in shown
    assert "a\\x1b[31m.py:1:1: ACC201" in shown


def test_wide_characters_and_tabs_are_underlined_where_they_stand(run, folder: Path) -> None:
    (folder / "a.py").write_text("if 1:\n\tx = '計'; acc201_none(1)\n")
    lines = run("check").stdout.splitlines()
    assert lines[3:5] == ["2 |     x = '計'; acc201_none(1)", "  |               ^^^^^^^^^^^"]


LAZY = """
import sys
from accumlint.cli.main import run
code = run(sys.argv[1:])
heavy = [name for name in ("libcst", "rich", "torch", "numpy", "flake8") if name in sys.modules]
assert not heavy, heavy
sys.exit(code)
"""


@pytest.mark.parametrize("arguments", [["--version"], ["version"], ["--help"], ["check", "a.py"], ["config"]])
def test_nothing_heavy_is_imported_without_a_loop(folder: Path, arguments: list[str]) -> None:
    (folder / "a.py").write_text("import torch\n\n\ndef f(x):\n    return torch.exp(x)\n")
    done = subprocess.run([sys.executable, "-c", LAZY, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_help_names_every_flag_of_the_documentation(run) -> None:
    shown = run("check", "--help").stdout
    for flag in (
        "--select",
        "--per-file-ignores",
        "--force-exclude",
        "--diff",
        "--require",
        "--add-noqa",
        "--baseline",
    ):
        assert flag in shown


def test_the_commands(run) -> None:
    assert run("--version").stdout == "accumlint 0.1.0\n"
    assert run("rule", "ACC201").stdout.startswith("# clip-per-microbatch (ACC201)")
    assert run("rule", "clip-per-microbatch").stdout == run("rule", "acc201").stdout
    every = json.loads(run("rule", "--all", "--output-format", "json").stdout)
    assert {"ACC101", "ACC201", "ACC308"} <= {rule["code"] for rule in every}
    assert "torch.nn.utils.clip_grad_norm_(" in run("apis", "clip_grad").stdout
    assert run("version").stdout.startswith("accumlint 0.1.0\npython ")


def test_shell_completion(run) -> None:
    words = {
        "_ACCUMLINT_COMPLETE": "bash_complete",
        "COMP_WORDS": "accumlint check --output-format sa",
        "COMP_CWORD": "3",
    }
    assert run(env=words).stdout == "plain,sarif\n"
    assert "complete" in run(env={"_ACCUMLINT_COMPLETE": "zsh_source"}).stdout


def test_an_internal_fault_of_a_command_is_one_line(folder: Path) -> None:
    code = (
        "import sys; from accumlint.cli import check, main\n"
        "def fail(flags): raise ZeroDivisionError('by zero')\n"
        "check.check = fail\nsys.exit(main.run(['check']))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "internal error: ZeroDivisionError: by zero; please report this, with the output of ACCUMLINT_DEBUG=1\n"
    )
