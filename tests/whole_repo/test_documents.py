"""What the documents say is what the code does: rules, commands, generated parts, links, examples."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import types
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

import accumlint
import accumlint.harness
from accumlint.cli.config_keys import BY_NAME
from accumlint.rules.registry import all_rules

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), ROOT / "samples" / "README.md"])
CODES = {rule.code for rule in all_rules()}
CODE = re.compile(r"\bACC\d{3}\b")
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
SAID_UNKNOWN: set[str] = set()


def load_script(name: str) -> types.ModuleType:
    spec = spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_each_rule_has_a_page_and_each_page_a_rule() -> None:
    assert {path.stem for path in (ROOT / "docs" / "rules").glob("ACC*.md")} == CODES


def test_the_table_of_the_readme_is_the_registry() -> None:
    table = re.search(r"<!-- generated: rules -->(.*?)<!-- end -->", README, re.DOTALL)
    assert table is not None
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table[1].splitlines() if "](docs/" in line]
    shown = [(CODE.findall(code)[0], name, summary, default) for code, name, summary, default in rows]
    assert shown == [(r.code, r.name, r.summary, r.state) for r in all_rules()]


def test_the_changelog_names_every_rule() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert set(CODE.findall(text)) == CODES
    assert all(rule.name in " ".join(text.split()) for rule in all_rules())


def test_the_changelog_has_this_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(rf"^## {re.escape(accumlint.__version__)}\b", text, re.MULTILINE)


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_page_names_a_rule_that_is_not_there(page: Path) -> None:
    assert set(CODE.findall(page.read_text(encoding="utf-8"))) - CODES == SAID_UNKNOWN


def test_generated_parts_are_up_to_date() -> None:
    pytest.importorskip("torch", reason="repairs are shown as executed")
    script = load_script("generate_docs")
    stale = [str(page) for page in script.files() if script.filled(page) != page.read_text(encoding="utf-8")]
    assert stale == [], "run scripts/generate_docs.py"


@pytest.mark.parametrize("name", ["check.svg", "explain.svg"])
def test_the_pictures_are_what_the_tool_prints(name: str) -> None:
    script = load_script("readme_picture")
    assert {path.name for path in script.PICTURES} == {"check.svg", "explain.svg"}
    path = script.IMAGES / name
    assert path.read_text(encoding="utf-8") == script.picture(script.PICTURES[path]), "run scripts/readme_picture.py"


def test_the_schema_is_that_of_the_keys() -> None:
    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert re.findall(r"^### `([\w-]+)`$", text, re.MULTILINE) == list(BY_NAME)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub and mkdocs make them of plain ones."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_local_links_lead_somewhere(page: Path) -> None:
    text = BLOCK.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(text):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if (ROOT / "docs") in page.parents:
            assert (ROOT / "docs") in (target, *target.parents), f"{link} leaves the site"
        if anchor:
            assert anchor in anchors(target), link


def test_ci_runs_the_command_of_the_readme() -> None:
    """`.ci/run` is the README's test command in a fresh folder, with the static checks before the tests."""
    (command,) = [line for line in README.splitlines() if line.startswith("python3 -m venv") and "pytest" in line]
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    plain = re.sub(r'"\$venv(/[\w/-]+)?"', lambda match: f".venv{match[1] or ''}", script)
    lines = [line.strip() for line in plain.splitlines()]
    assert [part in lines for part in command.split(" && ")] == [True, True, True]
    assert [line for line in lines if line.startswith((".venv/", "python3 ")) and "||" not in line] == command.split(
        " && "
    )
    assert all(f".venv/bin/{check} || " in plain for check in ("ruff check", "mypy", "lint-imports"))
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    assert command in contributing.splitlines()
    assert command in (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8").splitlines()


def test_the_main_command_of_the_readme() -> None:
    wanted = "python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/accumlint check samples/"
    assert wanted in README.splitlines()


def flags() -> set[str]:
    from accumlint.cli.commands.check import command

    return {flag for option in command.params for flag in (*option.opts, *option.secondary_opts)} | {"-h", "--help"}


@pytest.mark.parametrize("page", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_commands_have_flags_that_exist(page: Path) -> None:
    for language, block in BLOCK.findall(page.read_text(encoding="utf-8")):
        if language not in ("sh", "yaml", "text"):
            continue
        for command in re.findall(r"accumlint check (.*)", block):
            used = re.findall(r"(?<!\S)(--?[a-z][\w-]*)", command.split("#")[0])
            assert set(used) <= flags(), command


PYTHON = [
    (page, block)
    for page in PAGES
    for language, block in BLOCK.findall(page.read_text("utf-8"))
    if language == "python"
]
RUNNABLE = [(page, block) for page, block in PYTHON if page.name in ("api.md", "harness.md")]


@pytest.mark.parametrize(("page", "block"), RUNNABLE, ids=lambda value: getattr(value, "name", ""))
def test_examples_run(page: Path, block: str, tmp_path: Path) -> None:
    if "torch" in block or "harness" in block:
        pytest.importorskip("torch")
    path = tmp_path / "test_example.py"
    path.write_text(block, encoding="utf-8")
    has_tests = "def test_train" in block
    command = [sys.executable, *(("-m", "pytest", "-q", "-p", "no:xdist") if has_tests else ()), str(path)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_exported_names_are_documented() -> None:
    api = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    assert [name for name in accumlint.__all__ if f"`{name}" not in api] == []


@pytest.mark.skipif(find_spec("zensical") is None, reason="the site's generator is not installed")
def test_the_site_builds_without_warnings(tmp_path: Path) -> None:
    shutil.copytree(ROOT / "docs", tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    command = [sys.executable, "-m", "zensical", "build", "--strict"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "site" / "rules" / "ACC101" / "index.html").exists()
