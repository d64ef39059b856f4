"""`[tool.accumlint]`: where it is found, what it says, and how its mistakes are told."""

from __future__ import annotations

import json
from pathlib import Path

import jsonschema
import pytest

from accumlint.cli import config_keys
from accumlint.cli.config import check
from accumlint.cli.errors import UsageError
from accumlint.cli.rules import known_codes

SHIPPED = Path(config_keys.__file__).with_name("schema.json")
TEXT = "acc201_none(1)\nacc301_none(2)\nacc401_none(3)\n"


def codes(done) -> list[str]:
    return [entry["code"] for entry in json.loads(done.stdout)]


def configure(folder: Path, text: str) -> None:
    (folder / "pyproject.toml").write_text(f"[tool.accumlint]\n{text}\n")


@pytest.mark.parametrize(
    ("table", "flags", "expected"),
    [
        ("", [], ["ACC201", "ACC301"]),
        ('select = ["ACC2"]', [], ["ACC201"]),
        ('select = ["ACC2"]', ["--select", "ACC301"], ["ACC301"]),
        ('select = ["ACC2"]', ["--extend-select", "ACC4"], ["ACC201", "ACC401"]),
        ('extend-select = ["ACC401"]', ["--ignore", "ACC4,ACC301"], ["ACC201"]),
        ('ignore = ["ACC"]', [], []),
        ('ignore = ["ACC"]', ["--extend-select", "ACC201"], ["ACC201"]),
        ('select = ["ALL"]\nignore = ["ACC3"]', [], ["ACC201", "ACC401"]),
        ('select = ["ACC301"]\nignore = ["ACC3"]', [], ["ACC301"]),
        ('select = ["ACC301"]', ["--isolated"], ["ACC201", "ACC301"]),
        ('per-file-ignores = { "a.py" = ["ACC2"] }', [], ["ACC301"]),
        ('per-file-ignores = { "!a.py" = ["ACC2"] }', [], ["ACC201", "ACC301"]),
        ("", ["--per-file-ignores", "*.py:ACC2,b.py:ACC3"], ["ACC301"]),
        ('extend-exclude = ["a.py"]', [], []),
        ("", ["--extend-exclude", "a.*"], []),
        ('extend-exclude = ["a.py"]', ["a.py"], ["ACC201", "ACC301"]),
        ('extend-exclude = ["a.py"]\nforce-exclude = true', ["a.py"], []),
    ],
)
def test_effect(run, folder: Path, table: str, flags: list[str], expected: list[str]) -> None:
    (folder / "a.py").write_text(TEXT)
    configure(folder, table)
    done = run("check", "--output-format", "json", *flags)
    assert codes(done) == expected
    assert done.returncode == bool(expected)


def test_the_nearest_table_upward_counts(run, folder: Path) -> None:
    configure(folder, 'select = ["ACC301"]')
    inner = folder / "package" / "inner"
    inner.mkdir(parents=True)
    (inner / "a.py").write_text(TEXT)
    (folder / "package" / "pyproject.toml").write_text("[project]\nname = 'x'\n")  # has no table of ours
    assert codes(run("check", "package/inner/a.py", "--output-format", "json")) == ["ACC301"]
    (folder / "other.toml").write_text('[tool.accumlint]\nselect = ["ACC201"]\n')
    assert codes(run("check", "package", "--config", "other.toml", "--output-format", "json")) == ["ACC201"]


def test_gitignore(run, folder: Path) -> None:
    (folder / ".git").mkdir()
    (folder / ".gitignore").write_text("a.py\n")
    (folder / "a.py").write_text(TEXT)
    assert run("check", "--show-files").stdout == ""
    assert run("check", "--show-files", "--no-respect-gitignore").stdout == "a.py\n"
    configure(folder, "respect-gitignore = false")
    assert run("check", "--show-files").stdout == "a.py\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("selekt = []", 'unknown key "selekt" in [tool.accumlint]; did you mean "select"?'),
        ('select = ["ACC1O1"]', 'select: unknown rule code "ACC1O1"; did you mean "ACC101"?'),
        ('select = "ACC101"', "select: expected a list of strings, not 'ACC101'"),
        ("fix = 1", "fix: expected true or false, not 1"),
        ('output-format = "jsn"', "not 'jsn'; did you mean \"json\"?"),
        ('strategy = ["x"]', "strategy: expected one of auto, deferred, precount, not ['x']"),
        ("per-file-ignores = 3", "per-file-ignores: expected a table: file pattern"),
        ('per-file-ignores = { "a" = ["B1"] }', 'per-file-ignores."a": unknown rule code "B1"'),
        ("loss-contracts = 3", "loss-contracts: expected a table: callable pattern"),
        ("select = [", "not valid TOML"),
    ],
)
def test_mistakes(run, folder: Path, text: str, message: str) -> None:
    (folder / "a.py").write_text("acc201_safe(1)\n")
    configure(folder, text)
    done = run("check", "--fix")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("error: ")
    assert len(done.stderr.splitlines()) == 1
    assert "pyproject.toml: " in done.stderr
    assert message in done.stderr
    assert (folder / "a.py").read_text() == "acc201_safe(1)\n"


def test_the_shipped_schema_is_the_table() -> None:
    assert json.loads(SHIPPED.read_text()) == config_keys.schema()


def test_the_schema_accepts_each_example_and_so_does_the_reader() -> None:
    tomllib = pytest.importorskip("tomllib")
    jsonschema.Draft202012Validator.check_schema(config_keys.schema())
    for key in config_keys.KEYS:
        table = tomllib.loads(key.example)
        jsonschema.validate(table, config_keys.schema())
        check(key.name, table[key.name], known_codes(), "example")


@pytest.mark.parametrize("table", [{"selekt": []}, {"fix": 1}, {"select": ["E501"]}, {"output-format": "x"}])
def test_the_schema_refuses_what_the_reader_refuses(table: dict[str, object]) -> None:
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(table, config_keys.schema())
    ((name, value),) = table.items()
    with pytest.raises(UsageError):
        check(name, value, known_codes(), "test")


def test_show_settings(run, folder: Path) -> None:
    configure(folder, 'select = ["ACC301"]\nstrategy = "precount"')
    shown = run("check", "--show-settings").stdout
    assert "rules = ['ACC301']\n" in shown
    assert "strategy = precount\n" in shown
    assert f"configuration = {folder / 'pyproject.toml'}\n" in shown


def test_config_command(run) -> None:
    assert json.loads(run("config", "--schema").stdout) == config_keys.schema()
    shown = run("config", "strategy").stdout
    assert "choices: auto, deferred, precount" in shown
    assert all(key.name in run("config").stdout for key in config_keys.KEYS[:3])
