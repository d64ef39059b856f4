"""Fill the generated parts of README.md, docs/ and mkdocs.yml from the tool itself.

Usage: python scripts/generate_docs.py [--check]

A generated part stands between `<!-- generated: NAME -->` and `<!-- end -->`. NAME is `rules` (the table of rules),
`nav` (their pages in the site's navigation), `configuration` (the keys of [tool.accumlint]), `options` (the help of
`accumlint check`), `harness` (the names of accumlint.harness with their docstrings) or `run ARGUMENTS` (what `accumlint
ARGUMENTS` prints, where torch is installed; rounding, which differs from machine to machine, is left out). With --check
nothing is written: exit 1 if a file is not up to date.
"""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
ROUNDING = re.compile(r"\d\.\de-1[3-9]")
PART = re.compile(r"(<!-- generated: (?P<name>.+?) -->\n)(?P<text>.*?)(<!-- end -->)", re.DOTALL)


def files() -> list[Path]:
    """The hand-written pages that may hold generated parts."""
    pages = [ROOT / "README.md", ROOT / "mkdocs.yml", *sorted((ROOT / "docs").glob("*.md"))]
    return [page for page in pages if "<!-- generated: " in page.read_text(encoding="utf-8")]


def filled(page: Path) -> str:
    """The text of a page with all generated parts as they should be."""
    return PART.sub(lambda part: part[1] + text_of(part["name"], page) + part[4], page.read_text(encoding="utf-8"))


def text_of(name: str, page: Path) -> str:
    """The text of one generated part; raises ValueError for an unknown name."""
    match name.split():
        case ["rules"]:
            return rules("docs/rules/" if page.parent == ROOT else "rules/")
        case ["nav"]:
            return nav()
        case ["configuration"]:
            return configuration()
        case ["options"]:
            return fenced(run("check", "--help"))
        case ["run", *arguments]:
            return fenced(f"$ accumlint {' '.join(arguments)}\n{run(*arguments)}")
        case ["harness"]:
            return harness()
    raise ValueError(f"{page.name}: no generated part is called {name!r}")


def rules(folder: str) -> str:
    """The table of rules, with links to their pages in `folder`."""
    from accumlint.rules.registry import all_rules

    rows = ["| code | name | what is wrong | default |", "|---|---|---|---|"]
    for rule in all_rules():
        rows.append(f"| [{rule.code}]({folder}{rule.code}.md) | {rule.name} | {rule.summary} | {rule.state} |")
    return "\n" + "\n".join(rows) + "\n\n"


def nav() -> str:
    """The pages of the rules, in the indentation that mkdocs.yml has there."""
    from accumlint.rules.registry import all_rules

    pages = ["rules/index.md", *(f"{rule.code} {rule.name}: rules/{rule.code}.md" for rule in all_rules())]
    return "".join(f"      - {page}\n" for page in pages) + "      # "


def configuration() -> str:
    """A section for each key of the configuration."""
    from accumlint.cli.config_keys import KEYS

    sections = []
    for key in KEYS:
        one_of = f" One of {', '.join(f'`{choice}`' for choice in key.choices)}." if key.choices else ""
        sections.append(
            f"### `{key.name}`\n\n{key.help}\n\nHolds {key.kind.value}.{one_of} Default: {quoted(key.default)}.\n\n"
            f"```toml\n[tool.accumlint]\n{key.example}\n```\n\n"
        )
    return "\n" + "".join(sections)


def quoted(default: str) -> str:
    """A default in code font, unless it is a description."""
    return default if " " in default else f"`{default}`"


def run(*arguments: str) -> str:
    """What the command line prints, run from the root of the repository without colour and configuration files."""
    command = [sys.executable, "-m", "accumlint", *arguments]
    environment = {"COLUMNS": "100", "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8", "PYTHONPATH": str(ROOT)}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, encoding="utf-8", check=False)
    if done.returncode > 1:
        raise RuntimeError(f"accumlint {' '.join(arguments)}: {done.stderr}")
    return ROUNDING.sub("<1e-13 ", done.stdout)


def harness() -> str:
    """A section for each public name of accumlint.harness: its signature, its docstring, its fields or members."""
    import accumlint.harness as module

    sections = []
    for name in module.__all__:
        value = getattr(module, name)
        parts = [f"### `{name}`"]
        is_plain = inspect.isclass(value) and (issubclass(value, Enum | Exception) or is_dataclass(value))
        parts += [] if is_plain else [f"```text\n{name}{signature(value)}\n```"]
        parts.append(inspect.cleandoc(value.__doc__ or ""))
        if inspect.isclass(value) and issubclass(value, Enum):
            parts.append("\n".join(f"- `{member.name}`: {member.value}" for member in value))
        elif is_dataclass(value):
            parts.append("Fields: " + ", ".join(f"`{field.name}`" for field in fields(value)) + ".")
        if inspect.isclass(value):
            parts += methods(value)
        sections.append("\n\n".join(parts) + "\n\n")
    return "\n" + "".join(sections)


def methods(value: type) -> list[str]:
    """A list of the public methods and properties that a class documents itself."""
    found = []
    for name, method in vars(value).items():
        function = method.fget if isinstance(method, property) else method
        if not name.startswith("_") and inspect.isfunction(function) and function.__doc__:
            called = "" if isinstance(method, property) else signature(function, is_method=True)
            found.append(f"- `{name}{called}`: {' '.join(inspect.cleandoc(function.__doc__).split())}")
    return ["\n".join(found)] if found else []


def signature(function: Callable[..., object], *, is_method: bool = False) -> str:
    """A signature, one parameter a line if it is long; types lose their modules and quotes."""
    whole = inspect.signature(function)
    parts: list[str] = []
    is_starred = False
    for parameter in list(whole.parameters.values())[is_method:]:
        is_only_named = parameter.kind is parameter.KEYWORD_ONLY
        if is_only_named and not is_starred:
            parts.append("*")
        is_starred = is_starred or is_only_named or parameter.kind is parameter.VAR_POSITIONAL
        default = "sys.executable" if parameter.default == sys.executable else repr(parameter.default)
        shown = "" if parameter.default is parameter.empty else f" = {default}"
        star = {parameter.VAR_POSITIONAL: "*", parameter.VAR_KEYWORD: "**"}.get(parameter.kind, "")
        parts.append(f"{star}{parameter.name}: {short(parameter.annotation)}{shown}")
    result = "" if whole.return_annotation in (whole.empty, None, "None") else f" -> {short(whole.return_annotation)}"
    line = f"({', '.join(parts)}){result}"
    return line if len(line) <= 90 else "(\n" + "".join(f"    {part},\n" for part in parts) + f"){result}"


def short(annotation: object) -> str:
    """A type as it is written, without modules."""
    text = annotation if isinstance(annotation, str) else getattr(annotation, "__name__", str(annotation))
    return re.sub(r"\b(?:[a-z_]\w*\.)+(?=[A-Za-z])", "", text)


def fenced(text: str) -> str:
    """A block of text as it is printed."""
    return f"\n```text\n{text.rstrip()}\n```\n\n"


def main(arguments: list[str]) -> int:
    """Fill or check all pages; return the exit code."""
    stale = []
    for page in files():
        text = filled(page)
        if text != page.read_text(encoding="utf-8"):
            stale.append(page.relative_to(ROOT))
            if "--check" not in arguments:
                page.write_text(text, encoding="utf-8", newline="\n")
    for page in stale:
        print(f"{page}: {'not up to date' if '--check' in arguments else 'written'}")
    return 1 if stale and "--check" in arguments else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
