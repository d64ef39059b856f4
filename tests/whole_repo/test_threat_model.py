"""docs/threat-model.md: its tests exist, and those that have no better place stand here."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "threat-model.md"
TRAIN = """
from evil import loss_of
from ....outside import secret
import linked


def train(model, loader, optimizer):
    for i, (x, y) in enumerate(loader):
        loss = loss_of(model(x), y) + linked.more(y) + secret(y)
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
EVIL = """
open("ran", "w").write("loss backward optim")
def loss_of(logits, labels):
    return logits.sum()
"""
WATCH = """
import os, sys
opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)
from accumlint.cli.main import run
status = run(sys.argv[1:])
print("\\n".join(["OPENED", *opened]))
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project that would betray every import of its files, with files outside that it points at."""
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "outside.py").write_text("def secret(y): return y.backward()  # loss\n")
    (folder / "pyproject.toml").write_text("[tool.accumlint]\n")
    (folder / "train.py").write_text(TRAIN)
    for name in ("evil", "conftest", "setup", "sitecustomize"):
        (folder / f"{name}.py").write_text(EVIL)
    (folder / "linked.py").symlink_to(tmp_path / "outside.py")
    return folder


COMMAND = "import sys; from accumlint.cli.main import run; sys.exit(run(sys.argv[1:]))"
FLAKE8 = "import sys; from flake8.main.cli import main; sys.exit(main(sys.argv[1:]))"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT)}


def installed(*arguments: str, code: str = COMMAND) -> list[str]:
    """The command as it is installed: the current folder is not on its path."""
    if sys.version_info >= (3, 11):
        return [sys.executable, "-P", "-c", code, *arguments]
    return [sys.executable, "-c", f"import sys; sys.path.pop(0); {code}", *arguments]


def accumlint(folder: Path, *arguments: str, code: str = COMMAND) -> subprocess.CompletedProcess[str]:
    command = installed(*arguments, code=code)
    return subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, input="", capture_output=True, text=True, check=False, timeout=300
    )


def test_every_line_has_its_tests() -> None:
    lines = [line for line in PAGE.read_text().splitlines() if re.match(r"\| \d+ \|", line)]
    written = "\n".join(path.read_text() for path in (ROOT / "tests").rglob("test_*.py"))
    assert len(lines) >= 10
    for line in lines:
        names = re.findall(r"`(test_\w+)`", line)
        assert names, line
        for name in names:
            assert re.search(rf"^(async )?def {name}\(", written, re.MULTILINE), name


@pytest.mark.parametrize(
    "arguments",
    [
        ("check", "."),
        ("check", "--fix", "."),
        ("check", "--fix", "--unsafe-fixes", "."),
        ("check", "--diff", "."),
        ("check", "--add-noqa", "."),
        ("explain", "train.py"),
        ("trace", "train.py"),
    ],
    ids=" ".join,
)
def test_nothing_of_the_user_is_imported_or_run(project: Path, arguments: tuple[str, ...]) -> None:
    done = accumlint(project, *arguments)
    assert "Traceback" not in done.stderr
    assert done.stdout
    assert not (project / "ran").exists()


def test_what_is_imported_of_the_project_is_noticed(project: Path) -> None:
    """The files betray it: else no test of this page says anything."""
    accumlint(project, code="import sys; sys.path.insert(0, '.'); import evil")
    assert (project / "ran").exists()


def test_flake8_with_the_plugin_runs_nothing_of_the_user(project: Path) -> None:
    pytest.importorskip("flake8")
    done = accumlint(project, "--isolated", "-j", "1", "--select", "ACC", ".", code=FLAKE8)
    assert "ACC304" in done.stdout, done.stderr
    assert not (project / "ran").exists()


def test_the_server_imports_and_runs_nothing_of_the_user(project: Path) -> None:
    pytest.importorskip("pygls")
    uri = (project / "train.py").as_uri()
    opened = {"textDocument": {"uri": uri, "languageId": "python", "version": 1, "text": TRAIN}}
    messages = [
        {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "initialize",
            "params": {"capabilities": {}, "rootUri": project.as_uri()},
        },
        {"jsonrpc": "2.0", "method": "initialized", "params": {}},
        {"jsonrpc": "2.0", "method": "textDocument/didOpen", "params": opened},
    ]
    ending = [{"jsonrpc": "2.0", "id": 2, "method": "shutdown"}, {"jsonrpc": "2.0", "method": "exit"}]

    def packed(each: dict[str, object]) -> bytes:
        text = json.dumps(each).encode()
        return b"Content-Length: %d\r\n\r\n%s" % (len(text), text)

    said = b""
    with subprocess.Popen(
        installed("server"), cwd=project, env=ENVIRONMENT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write(b"".join(map(packed, messages)))
        server.stdin.flush()
        while b"ACC304" not in said and (piece := server.stdout.read1()):
            said += piece  # until the text was checked; a server that says nothing more has ended
        server.stdin.write(b"".join(map(packed, ending)))
    assert b"publishDiagnostics" in said
    assert b"ACC304" in said
    assert not (project / "ran").exists()


def test_no_file_out_of_the_project_is_opened(project: Path) -> None:
    command = [sys.executable, "-c", WATCH, "check", "--no-cache", "train.py"]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, check=True)
    opened = done.stdout.partition("OPENED\n")[2].splitlines()
    real = {os.path.realpath(os.path.join(project, path)) for path in opened}
    assert {str(project.resolve() / name) for name in ("train.py", "evil.py")} <= real, "a helper beside it is followed"
    assert str(project.parent.resolve() / "outside.py") not in real


def test_a_baseline_of_the_configuration_is_inside(project: Path) -> None:
    victim = project.parent / "victim.json"
    victim.write_text("{}")
    (project / "pyproject.toml").write_text('[tool.accumlint]\nbaseline = "../victim.json"\n')
    done = accumlint(project, "check", "--write-baseline", ".")
    assert done.returncode == 2
    assert "is not inside of" in done.stderr
    assert victim.read_text() == "{}"


def test_a_loss_contract_is_never_evaluated(project: Path) -> None:
    """What is no count is refused; nothing of it is run either way."""
    count = "__import__('pathlib').Path('ran').write_text('x')"
    (project / "pyproject.toml").write_text(f'[tool.accumlint.loss-contracts]\n"evil.loss_of" = "{count}"\n')
    done = accumlint(project, "check", ".")
    assert done.returncode == 2
    assert not (project / "ran").exists()


OWN_PROCESSES = ("server/remote.py", "server/worker.py")
"""Files that pickle what goes from a process of accumlint to another, which it started."""


def test_the_package_evaluates_and_unpickles_nothing() -> None:
    """Only the harness runs code, which is its work."""
    looked_at = 0
    for path in sorted((ROOT / "accumlint").rglob("*.py")):
        if "harness" in path.parts:
            continue
        looked_at += 1
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import | ast.ImportFrom) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            loaders = {"pickle", "marshal", "shelve", "dill", "cloudpickle"} & {name.split(".")[0] for name in names}
            assert not loaders or path.as_posix().endswith(OWN_PROCESSES), path
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                assert node.func.id not in ("eval", "exec", "compile", "__import__"), (path, node.lineno)
    assert looked_at > 150
