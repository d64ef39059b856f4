"""The features that users know from torchfix, flake8-async, Fixit, LibCST's tool, bugbear, refurb, ruff and dslinter.

One small invocation of the real tool for each; the details are tested where the feature is.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import accumlint
from accumlint.report.formats import FORMATS
from accumlint.rules.registry import all_rules

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
CLIP = """import torch


def train(model, loader, optimizer):
    optimizer.zero_grad()
    for i, (x, y) in enumerate(loader):
        torch.nn.functional.mse_loss(model(x), y, reduction="sum").backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
LINE = 8  # of the clip
CAPABILITIES = {"notebookDocument": {"synchronization": {}}}
UNUSED = "x = 1  # noqa: ACC101\n"


@pytest.fixture
def project(folder: Path) -> Path:
    (folder / "train.py").write_text(CLIP)
    (folder / "unused.py").write_text(UNUSED)
    return folder


@pytest.fixture
def tool(run, project: Path):
    """`tool("check", ...)` with the real engine."""

    def call(*arguments: str, **named: object) -> subprocess.CompletedProcess[str]:
        return run(*arguments, fake=False, **named)

    return call


def codes(done: subprocess.CompletedProcess[str]) -> list[str]:
    return [entry["code"] for entry in json.loads(done.stdout)]


def test_standalone_command_line(tool) -> None:
    done = tool("check")
    assert done.returncode == 1
    assert f"train.py:{LINE}:9: ACC201" in done.stdout
    assert tool("--version").stdout == f"accumlint {accumlint.__version__}\n"


def test_flake8_entry_point_and_options(tool) -> None:
    pytest.importorskip("flake8")
    assert f"accumlint: {accumlint.__version__}" in " ".join(tool("--version", module="flake8").stdout.split())
    done = tool("--isolated", "--select", "ACC201", "--accumlint-hints", "train.py", module="flake8")
    assert done.stdout.startswith(f"train.py:{LINE}:9: ACC201 ")
    assert "(help: " in done.stdout


def test_select_and_ignore(tool) -> None:
    assert set(codes(tool("check", "--select", "ACC2", "--output-format", "json"))) == {"ACC201"}
    assert "ACC201" not in codes(tool("check", "--ignore", "ACC201", "--output-format", "json"))
    assert set(codes(tool("check", "--select", "ALL", "--output-format", "json"))) >= {"ACC201", "ACC901"}


def test_configuration_in_pyproject(tool, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.accumlint]\nselect = ["ACC2"]\noutput-format = "json"\n')
    assert codes(tool("check")) == ["ACC201"]
    (project / "pyproject.toml").write_text('[tool.accumlint]\nper-file-ignores = { "tr*" = ["ACC"] }\n')
    assert tool("check").returncode == 0
    assert json.loads(tool("config", "--schema").stdout)["properties"]["per-file-ignores"]


def test_suppression(tool, project: Path) -> None:
    lines = CLIP.splitlines()
    lines[LINE - 1] += "  # noqa: ACC201"
    (project / "train.py").write_text("\n".join(lines))
    assert tool("check", "--select", "ACC201").returncode == 0
    assert tool("check", "--select", "ACC201", "--ignore-noqa").returncode == 1
    (project / "train.py").write_text(f"# accumlint: noqa\n{CLIP}")
    assert tool("check").returncode == 0
    (project / "train.py").write_text(CLIP)
    assert tool("check", "--add-noqa").returncode == 0
    assert "# noqa: ACC201" in (project / "train.py").read_text().splitlines()[LINE - 1]
    assert tool("check").returncode == 0


def test_unused_suppressions_with_repair(tool, project: Path) -> None:
    flags = ("--extend-select", "ACC901", "unused.py")
    assert codes(tool("check", *flags, "--output-format", "json")) == ["ACC901"]
    assert tool("check", *flags, "--fix").returncode == 0
    assert (project / "unused.py").read_text() == "x = 1\n"


def test_repairs_safe_and_unsafe(tool, project: Path) -> None:
    """Without having been executed a repair is not safe, and says what is missing."""
    shutil.copy(ROOT / "samples" / "off_by_one.py", project)
    found = json.loads(tool("check", "off_by_one.py", "--output-format", "json").stdout)
    assert {entry["fix"]["applicability"] for entry in found} == {"unsafe"}
    assert all(entry["certificate"]["discharged"] == ["proved"] for entry in found)
    assert all(entry["certificate"]["missing"] for entry in found)
    done = tool("check", "--fix", "--require", "proved", "off_by_one.py")
    assert (done.returncode, f"Repaired {len(found)} errors in 1 file" in done.stdout) == (0, True)


def test_diff_preview(tool, project: Path) -> None:
    done = tool("check", "--diff", "--extend-select", "ACC901", "unused.py")
    assert done.returncode == 1
    assert done.stdout.endswith("-x = 1  # noqa: ACC101\n+x = 1\n")
    assert (project / "unused.py").read_text() == UNUSED


def test_pre_commit_hooks() -> None:
    yaml = pytest.importorskip("yaml")
    hooks = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert [(hook["id"], hook["entry"].split()[:2]) for hook in hooks] == [
        ("accumlint", ["accumlint", "check"]),
        ("accumlint-fix", ["accumlint", "check"]),
    ]  # run by the real pre-commit in test_pre_commit.py


def test_codemod_command(tool, project: Path) -> None:
    (project / "pyproject.toml").write_text('[tool.accumlint]\nextend-select = ["ACC901"]\n')
    name = "accumlint.codemod.WeightedAccumulation"
    done = tool("codemod", "-x", name, "--no-format", "unused.py", module="libcst.tool")
    assert done.returncode == 0
    assert (project / "unused.py").read_text() == "x = 1\n"


def test_notebooks(tool, project: Path) -> None:
    cells = [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in ("%pip install torch", CLIP, f"%time f()\n{UNUSED}")
    ]
    text = json.dumps({"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 4})
    (project / "train.ipynb").write_text(text)
    done = tool("check", "train.ipynb", "--select", "ACC2", "--output-format", "concise")
    assert done.stdout.startswith(f"train.ipynb:cell 2:{LINE}:9: ACC201")
    done = tool("check", "train.ipynb", "--fix", "--extend-select", "ACC901", "--ignore", "ACC2,ACC3")
    assert "Repaired 1 error in 1 file" in done.stdout
    expected = text.replace("  # noqa: ACC101", "")
    assert (project / "train.ipynb").read_text() == expected


def test_stdin_and_its_name(tool) -> None:
    done = tool("check", "-", "--stdin-filename", "src/a.py", "--select", "ACC2", stdin=CLIP)
    assert done.stdout.startswith(f"src/a.py:{LINE}:9: ACC201")
    done = tool("check", "-", "--fix", "--extend-select", "ACC901", stdin=UNUSED)
    assert done.stdout == "x = 1\n"


@pytest.mark.parametrize("name", FORMATS)
def test_output_formats(tool, project: Path, name: str) -> None:
    done = tool("check", "--select", "ACC2", "--output-format", name, "-o", "report")
    assert (done.returncode, done.stdout) == (1, "")
    assert "ACC201" in (project / "report").read_text()


def test_exit_codes(tool, project: Path) -> None:
    assert tool("check", "unused.py").returncode == 0
    assert tool("check", "train.py").returncode == 1
    assert tool("check", "train.py", "--exit-zero").returncode == 0
    assert tool("check", "missing.py").returncode == 2
    assert tool("check", "unused.py", "--extend-select", "ACC901", "--fix", "--exit-non-zero-on-fix").returncode == 1


def test_explanations_of_each_rule(tool) -> None:
    done = tool("rule", "--all", "--output-format", "json")
    for rule, described in zip(all_rules(), json.loads(done.stdout), strict=True):
        page = (ROOT / "docs" / "rules" / f"{rule.code}.md").read_text(encoding="utf-8")
        assert described["explanation"] in page
        assert all(f"## {title}" in page for title in ("What it does", "Why it is bad", "Repair safety", "References"))


def test_statistics(tool) -> None:
    done = tool("check", "--statistics", "--select", "ACC2")
    assert done.stdout.split("\n")[0].split()[:2] == ["1", "ACC201"]


def test_parallel(tool, project: Path) -> None:
    for number in range(10):
        (project / f"t{number}.py").write_text(CLIP)
    alone, together = (tool("check", "-j", jobs, "--output-format", "json").stdout for jobs in ("1", "2"))
    assert alone == together
    assert len(codes(subprocess.CompletedProcess([], 0, alone))) >= 11


def test_a_cache(tool, project: Path) -> None:
    (project / "train.py").write_text(CLIP.replace("1.0)\n", "1.0)  # noqa: ACC201\n"))
    flags = ("check", "--cache-dir", "kept", "--select", "ACC2", "--output-format", "json")
    assert codes(tool(*flags)) == []
    assert list((project / "kept").glob("*.json"))
    assert codes(tool(*flags, "--ignore-noqa")) == ["ACC201"]  # is another question than the one that is kept
    assert codes(tool(*flags)) == []
    assert tool("clean", "--cache-dir", "kept").returncode == 0
    assert not list((project / "kept").glob("*.json"))


def test_a_baseline(tool, project: Path) -> None:
    assert tool("check", "--baseline", "known.json", "--write-baseline").returncode == 0
    (project / "train.py").write_text(f"import os\n\n{CLIP}")
    assert tool("check", "--baseline", "known.json").returncode == 0
    (project / "new.py").write_text(CLIP)
    done = tool("check", "--baseline", "known.json", "--output-format", "json")
    assert {entry["filename"] for entry in json.loads(done.stdout)} == {"new.py"}


def test_language_server(tool) -> None:
    pytest.importorskip("pygls")  # a whole session is in tests/server
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"capabilities": CAPABILITIES}})
    done = tool("server", stdin=f"Content-Length: {len(body)}\r\n\r\n{body}")
    capabilities = json.loads(done.stdout.split("\r\n\r\n", 1)[1])["result"]["capabilities"]
    assert capabilities["codeActionProvider"]["codeActionKinds"] == ["quickfix", "source.fixAll.accumlint"]
    assert capabilities["hoverProvider"]
    assert capabilities["notebookDocumentSync"]["notebookSelector"]


def test_pythons_types_and_no_upper_pins() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert project["requires-python"] == ">=3.10"
    offered = {name.rsplit(" ", 1)[1] for name in project["classifiers"] if "Python :: 3." in name}
    assert offered == {"3.10", "3.11", "3.12", "3.13", "3.14"}
    assert (Path(accumlint.__file__).parent / "py.typed").is_file()
    for required in project["dependencies"]:  # so that it installs beside any other tool
        assert not set("<~=") & set(required.partition(";")[0].replace(">=", "")), required


def test_entry_points_are_installed() -> None:
    try:
        entries = metadata.distribution("accumlint").entry_points
    except metadata.PackageNotFoundError:
        pytest.skip("not installed")
    found = {(entry.group, entry.name) for entry in entries}
    assert {("console_scripts", "accumlint"), ("flake8.extension", "ACC")} <= found


def test_no_color_and_colour(tool) -> None:
    assert "\x1b[" in tool("check", env={"FORCE_COLOR": "1"}).stdout
    assert "\x1b[" not in tool("check", env={"FORCE_COLOR": "1", "NO_COLOR": "1"}).stdout
    assert "\x1b[" in tool("check", "--color", env={"NO_COLOR": "1"}).stdout


def test_benchmarks_and_changelog_are_there() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks" / "gates.py"), "--help"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert f"## {accumlint.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
