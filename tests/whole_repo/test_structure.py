"""The walls between the layers, the shape of modules, and what a release holds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "accumlint"
MODULES = sorted(PACKAGE.rglob("*.py"))
COMMITTED = re.compile(r"/(?:home|root|Users|tmp)/\w|/work/(?:main|shared|venvs|wheels)")


def test_imports_go_one_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contracts of pyproject.toml, by import-linter itself."""
    cli = pytest.importorskip("importlinter.cli")
    monkeypatch.chdir(ROOT)
    assert cli.lint_imports(no_cache=True) == cli.EXIT_STATUS_SUCCESS


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_each_module_says_what_it_is(module: Path) -> None:
    tree = ast.parse(module.read_text(encoding="utf-8"))
    if not tree.body:
        return  # an empty __init__.py
    docstring = ast.get_docstring(tree)
    is_rule = module.parent.name == "rules" and module.name.startswith("acc")
    if is_rule:  # the page is the docstring of the class
        (rule,) = [node for node in tree.body if isinstance(node, ast.ClassDef)]
        docstring = ast.get_docstring(rule)
    assert docstring


@pytest.mark.parametrize(
    "module",
    [
        "accumlint",
        "accumlint.analysis",
        "accumlint.flake8_plugin",
        "accumlint.harness",
        "accumlint.harness.pytest_plugin",
    ],
)
def test_what_is_always_loaded_is_light(module: str) -> None:
    heavy = ("torch", "libcst", "rich", "numpy")
    code = f"import {module}, sys; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.strip() == "[]"


def test_the_wheel_holds_what_is_read_and_run_as_files(tmp_path: Path) -> None:
    builder = pytest.importorskip("hatchling.builders.wheel")
    (path,) = builder.WheelBuilder(str(ROOT)).build(directory=str(tmp_path))
    with zipfile.ZipFile(path) as wheel:
        names = set(wheel.namelist())
        entry_points = next(wheel.read(name).decode() for name in names if name.endswith("entry_points.txt"))
    expected = {str(module.relative_to(ROOT).as_posix()) for module in MODULES}
    expected |= {"accumlint/py.typed", "accumlint/cli/schema.json"}
    assert expected <= names
    assert not [name for name in names if name.startswith(("tests/", "samples/", "docs/", "scripts/"))]
    for line in (
        "accumlint = accumlint.cli.main:main",
        "ACC = accumlint.flake8_plugin:Plugin",
        "accumlint = accumlint.harness.pytest_plugin",
    ):
        assert line in entry_points.splitlines()


def test_no_committed_file_names_a_machine() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    found = []
    for name in listed.stdout.splitlines():
        path = ROOT / name
        if (
            path.suffix in (".py", ".md", ".toml", ".yml", ".yaml", ".txt", "")
            and path.is_file()
            and "tests" not in path.parts
        ):
            found += [
                f"{name}: {match}" for match in COMMITTED.findall(path.read_text(encoding="utf-8", errors="replace"))
            ]
    assert found == []


def test_test_files_have_names_of_their_own() -> None:
    """pytest imports them by their last name: two of one name cannot be collected in one run."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted(name for name in set(names) if names.count(name) > 1) == []
