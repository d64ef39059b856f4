"""The plugin in the real flake8, as a process; and its parity with the own command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("flake8")

SAMPLES = sorted((Path(__file__).parents[2] / "samples").glob("*.py"))
MARK = "# backward, step: words that make a file worth reading\n"


def flake8(run, *arguments: str, fake: bool = True) -> subprocess.CompletedProcess[str]:
    if fake:
        return run("flake8", "--isolated", "--jobs", "1", *arguments)
    return run("--isolated", *arguments, module="flake8")


def rows(output: str) -> list[tuple[str, int, int, str]]:
    found = []
    for line in output.splitlines():
        name, row, column, text = line.split(":", 3)
        found.append((name.removeprefix("./"), int(row), int(column), text.split()[0]))
    return sorted(found)


@pytest.fixture
def _file(folder: Path) -> None:
    text = "acc201_safe(1)\nx = acc301_none(2)  # noqa: ACC301\nacc401_none(3)\ny = 1\n"
    (folder / "a.py").write_text(MARK + text)


@pytest.mark.usefixtures("_file")
def test_codes_lines_and_columns(run) -> None:
    done = flake8(run, "--extend-select", "ACC", "--extend-ignore", "F,E,W,C", "a.py")
    assert rows(done.stdout) == [("a.py", 2, 1, "ACC201"), ("a.py", 4, 1, "ACC401")]
    assert done.returncode == 1


@pytest.mark.usefixtures("_file")
def test_opt_in_rules_are_off_unless_selected(run) -> None:
    assert {row[3] for row in rows(flake8(run, "a.py").stdout) if row[3].startswith("ACC")} == {"ACC201"}
    assert {row[3] for row in rows(flake8(run, "--select", "ACC401", "a.py").stdout)} == {"ACC401"}


@pytest.mark.usefixtures("_file")
def test_noqa_is_flake8s(run) -> None:
    shown = rows(flake8(run, "--select", "ACC", "--disable-noqa", "a.py").stdout)
    assert ("a.py", 3, 5, "ACC301") in shown


@pytest.mark.usefixtures("_file")
def test_hints(run) -> None:
    assert (
        "each target weighs 2.5x (help: weight by valid targets)"
        in flake8(run, "--select", "ACC201", "--accumlint-hints", "a.py").stdout
    )


@pytest.mark.parametrize(
    ("call", "message"), [("crash()", "broken invariant"), ("raising()", "RuntimeError: something")]
)
def test_an_internal_fault_is_shown(run, folder: Path, call: str, message: str) -> None:
    (folder / "a.py").write_text(f"{MARK}{call}\n")
    done = flake8(run, "--select", "ACC", "a.py")
    assert done.returncode == 1
    assert done.stdout.startswith("There was a critical error during execution of Flake8:\n")
    assert f"a.py: accumlint: internal error: {message}" in done.stdout


def test_parity_with_the_command_line(run, folder: Path) -> None:
    names = []
    for number in range(6):
        text = (
            MARK
            + "acc201_safe(acc301_none(1))\n" * number
            + "# é\nx = '''\n''', acc103_none(1)  # noqa\nacc404_none(1)\n"
        )
        (folder / f"a{number}.py").write_text(text)
        names.append(f"a{number}.py")
    theirs = rows(flake8(run, "--select", "ACC", *names).stdout)
    ours = json.loads(run("check", "--select", "ACC", "--output-format", "json", *names).stdout)
    assert theirs == sorted(
        {(entry["filename"], entry["location"]["row"], entry["location"]["column"], entry["code"]) for entry in ours}
    )


def assert_parity(run, jobs: str, *paths: str) -> list[tuple[str, int, int, str]]:
    theirs = flake8(run, "--select", "ACC", "--jobs", jobs, *paths, fake=False)
    assert theirs.stderr == ""
    ours = run("check", "--isolated", "--select", "ACC", "--output-format", "json", *paths, fake=False)
    assert ours.stderr == ""
    assert rows(theirs.stdout) == sorted(
        (entry["filename"], entry["location"]["row"], entry["location"]["column"], entry["code"])
        for entry in json.loads(ours.stdout)
    )
    return rows(theirs.stdout)


@pytest.mark.parametrize("sample", SAMPLES, ids=lambda path: path.stem)
def test_parity_on_the_samples(run, sample: Path) -> None:
    assert_parity(run, "1", str(sample))


def test_parity_with_several_processes(run) -> None:
    assert_parity(run, "2", *(str(sample) for sample in SAMPLES if sample.stem.startswith(("right", "t"))))


LAZY = """
import sys, ast
import flake8.main.application, flake8.options.manager
from accumlint.flake8_plugin import Plugin
text = open("a.py").read()
assert not list(Plugin(ast.parse(text), "a.py", text.splitlines(True)).run())
assert not [name for name in ("libcst", "torch", "rich", "click") if name in sys.modules], sys.modules.keys()
"""


def test_nothing_heavy_is_imported_without_a_loop(folder: Path) -> None:
    (folder / "a.py").write_text("import torch\n\n\nx = torch.zeros(2)\n")
    done = subprocess.run([sys.executable, "-c", LAZY], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_flake8_lists_the_plugin() -> None:
    done = subprocess.run([sys.executable, "-m", "flake8", "--version"], capture_output=True, text=True, check=False)
    assert "accumlint: 0.1.0" in done.stdout


HELPER = """import torch


def accumulate(model, batch, optimizer, step):
    torch.nn.functional.mse_loss(model(batch), batch, reduction="sum").backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if (step + 1) % 4 == 0:
        optimizer.step()
        optimizer.zero_grad()
"""


def test_parity_where_the_backward_is_in_another_file(run, folder: Path) -> None:
    (folder / "helper.py").write_text(HELPER)
    loop = "for step, batch in enumerate(loader):\n        accumulate(model, batch, optimizer, step)\n"
    (folder / "train.py").write_text(
        f"from helper import accumulate\n\n\ndef train(model, loader, optimizer):\n    {loop}"
    )
    found = assert_parity(run, "1", "train.py", "helper.py")
    assert ("train.py", 6, 9, "ACC201") in found


DECLARED = """import torch
from elsewhere import Tagger


def train(loader, optimizer):
    model = Tagger()
    for step, (tokens, labels) in enumerate(loader):
        (model(tokens, labels) / 4).backward()
        if (step + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""


def test_loss_contracts_hold(run, folder: Path) -> None:
    (folder / "train.py").write_text(DECLARED)
    table = '[tool.accumlint.loss-contracts]\n"elsewhere.Tagger.forward" = "(labels != -100).sum()"\n'
    before = rows(flake8(run, "--select", "ACC", "train.py", fake=False).stdout)
    (folder / "other.toml").write_text(table)
    named = flake8(run, "--select", "ACC", "--accumlint-config", "other.toml", "train.py", fake=False)
    (folder / "pyproject.toml").write_text(table)
    found = rows(flake8(run, "--select", "ACC", "train.py", fake=False).stdout)
    ours = json.loads(run("check", "--select", "ACC", "--output-format", "json", "train.py", fake=False).stdout)
    assert [(row, code) for _, row, _, code in found] == [(each["location"]["row"], each["code"]) for each in ours]
    assert rows(named.stdout) == found
    assert "ACC101" in {code for *_, code in found}
    assert "ACC101" not in {code for *_, code in before}
    (folder / "pyproject.toml").write_text("[tool.accumlint]\nslect = []\n")
    broken = flake8(run, "--select", "ACC", "train.py", fake=False)
    assert 'unknown key "slect" in [tool.accumlint]' in broken.stdout + broken.stderr
