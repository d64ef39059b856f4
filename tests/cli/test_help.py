"""Help and shell completion: every command explains itself, every flag stands in a section, mistakes are one line."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

from accumlint.cli.commands.check import SECTIONS
from accumlint.cli.commands.check import command as check
from accumlint.cli.main import Commands, cli

CONTEXT = click.Context(cli)
assert isinstance(cli, Commands)
COMMANDS = cli.list_commands(CONTEXT)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_explains_itself(run, name: str) -> None:
    command = cli.get_command(CONTEXT, name)
    assert command is not None
    assert command.short_help
    for option in command.params:
        assert not isinstance(option, click.Option) or option.help, option.name
    done = run(name, "--help", env={"COLUMNS": "80"})
    assert done.returncode == 0
    assert done.stdout.startswith(f"Usage: accumlint {name}")
    assert all(len(line) <= 110 for line in done.stdout.splitlines())
    assert done.stdout == run(name, "-h", env={"COLUMNS": "80"}).stdout


def test_sections_name_flags_that_are_there_once() -> None:
    named = [name for names in SECTIONS.values() for name in names]
    assert len(named) == len(set(named))
    assert set(named) <= {option.name for option in check.params}
    shown = check.get_help(click.Context(check, info_name="check", terminal_width=80))
    for option in check.params:
        if isinstance(option, click.Option):
            assert shown.count(f"{option.opts[-1]} ") >= 1, option.name
    assert [heading for heading in SECTIONS if f"\n{heading}:\n" not in shown] == []


@pytest.mark.parametrize(
    "arguments", [["check", "--foo"], ["check", "-j", "0"], ["--foo"], ["rule", "A", "B"], ["verify"]]
)
def test_a_mistake_is_one_line_that_names_the_help(run, arguments: list[str]) -> None:
    done = run(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: ")
    assert line.endswith("--help")


def test_without_a_command_the_commands_are_shown(run) -> None:
    done = run()
    assert done.returncode == 2
    assert all(f"\n  {name} " in done.stdout + done.stderr for name in COMMANDS)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment in which `accumlint` is the one under test, whatever else is installed."""
    path = tmp_path / "bin" / "accumlint"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\nexec {sys.executable} -m accumlint "$@"\n')
    path.chmod(0o755)
    return {**os.environ, "PATH": f"{path.parent}{os.pathsep}{os.environ['PATH']}"}


COMPLETED = [
    ("accumlint ch", {"check"}),
    ("accumlint check --unsafe", {"--unsafe-fixes"}),
    ("accumlint check --select ACC20", {"ACC201", "ACC202"}),
    ("accumlint check --select ACC1,ACC20", {"ACC1,ACC201", "ACC1,ACC202"}),
    ("accumlint check --strategy pre", {"precount"}),
    ("accumlint rule acc20", {"ACC201", "ACC202"}),
    ("accumlint config extend-s", {"extend-select", "extend-safe-fixes"}),
    ("accumlint chekc --se", set()),
]


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash")
@pytest.mark.parametrize(("typed", "expected"), COMPLETED)
def test_bash_completes(installed: dict[str, str], typed: str, expected: set[str]) -> None:
    script = (
        'eval "$(accumlint completion bash)"; read -ra COMP_WORDS <<< "$1"; COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); '
        '_accumlint_completion accumlint; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    command = ["bash", "-c", script, "bash", typed]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, timeout=60, check=False)
    assert done.stderr == ""
    assert set(done.stdout.split()) == expected


@pytest.mark.parametrize(
    ("shell", "check"), [("zsh", ["zsh", "-n"]), ("fish", ["fish", "--no-execute"]), ("bash", ["bash", "-n"])]
)
def test_the_scripts_of_the_shells(run, folder: Path, shell: str, check: list[str]) -> None:
    done = run("completion", shell)
    assert f"_ACCUMLINT_COMPLETE={shell}_complete" in done.stdout
    (folder / "script").write_text(done.stdout)
    if shutil.which(shell):
        subprocess.run([*check, str(folder / "script")], check=True)


def test_a_shell_that_is_not_known(run) -> None:
    assert "'tcsh' is not one of 'bash', 'zsh', 'fish'" in run("completion", "tcsh").stderr
