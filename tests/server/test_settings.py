"""The settings in docs/editors.md and the files in editors/: they parse, and name what is there."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import accumlint
from accumlint.server import options

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "editors.md").read_text(encoding="utf-8")
EXTENSION = ROOT / "editors" / "vscode"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_extension_for_vs_code() -> None:
    package = json.loads((EXTENSION / "package.json").read_text())
    assert package["version"] == accumlint.__version__
    assert (EXTENSION / package["main"]).is_file()
    properties = package["contributes"]["configuration"]["properties"]
    assert set(properties) == {"accumlint.command", *(f"accumlint.{name}" for name in options.KNOWN)}
    defaults = {name: properties[f"accumlint.{name}"]["default"] for name in options.KNOWN}
    assert options.read({**defaults, "config": defaults["config"] or None}) == (options.Options(), [])
    script = (EXTENSION / "extension.js").read_text()
    assert all(f'settings.get("{name}")' in script for name in (*options.KNOWN, "command"))
    if node := shutil.which("node"):
        subprocess.run([node, "--check", str(EXTENSION / "extension.js")], check=True)


def test_the_settings_parse() -> None:
    (settings,) = map(json.loads, blocks("json"))
    assert settings["accumlint.command"][-1] == "server"
    (helix,) = map(tomllib.loads, blocks("toml"))
    server = helix["language-server"]["accumlint"]
    assert [server["command"], *server["args"]] == ["accumlint", "server"]
    assert options.read(server["config"]) == (options.Options(), [])
    assert "accumlint" in helix["language"][0]["language-servers"]
    for text in (*blocks("lua"), *blocks("elisp")):
        assert text.count("(") == text.count(")")
        assert text.count("{") == text.count("}")
        assert '"accumlint"' in text or "source.fixAll.accumlint" in text
    assert all(f"| `{name}` |" in PAGE for name in options.KNOWN)


@pytest.mark.parametrize(
    ("given", "expected", "wrong"),
    [
        (None, options.Options(), 0),
        ({}, options.Options(), 0),
        ({"settings": {"confirm": False}}, options.Options(confirm=False), 0),
        ({"debounce": 0, "config": "x.toml"}, options.Options("x.toml", True, 0.0), 0),
        ({"debounce": True, "config": 3, "confirm": "no", "other": 1}, options.Options(), 4),
        ({"debounce": -1}, options.Options(), 1),
        (["confirm"], options.Options(), 1),
    ],
)
def test_options(given: object, expected: options.Options, wrong: int) -> None:
    read, said = options.read(given)
    assert (read, len(said)) == (expected, wrong)
