"""The keys of `[tool.accumlint]` in one table: reading, checking, JSON schema and documentation come from it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

from accumlint.reading.contracts import REDUCTIONS
from accumlint.report.formats import FORMATS

STRATEGIES = ("auto", "deferred", "precount")
REQUIREMENTS = ("proved", "executed", "leaf-checked")
CODE_PATTERN = r"^(ALL|ACC[0-9]{0,3})$"


class Kind(Enum):
    """What a key holds."""

    CODES = "rule codes or prefixes"
    PATTERNS = "file patterns"
    BOOLEAN = "true or false"
    CHOICE = "one of the named values"
    CODES_BY_PATTERN = "a table: file pattern -> rule codes or prefixes"
    CONTRACTS = "a table: callable pattern -> count expression, or a table with count, reduction, parameters, output"
    TEXT = "a text"


@dataclass(frozen=True, slots=True)
class Key:
    name: str
    kind: Kind
    help: str
    default: str  # as it is shown in the documentation
    example: str
    choices: tuple[str, ...] = ()


KEYS: tuple[Key, ...] = (
    Key(
        "select",
        Kind.CODES,
        "Rules to report; an opt-in rule is reported if it is selected.",
        "the rules that are on by default",
        'select = ["ACC1", "ACC201"]',
    ),
    Key("extend-select", Kind.CODES, "Rules to report beside the selected ones.", "[]", 'extend-select = ["ACC401"]'),
    Key("ignore", Kind.CODES, "Rules not to report; the longer of two prefixes wins.", "[]", 'ignore = ["ACC102"]'),
    Key(
        "per-file-ignores",
        Kind.CODES_BY_PATTERN,
        "Rules not to report in files that match a pattern; a leading ! negates the pattern.",
        "{}",
        'per-file-ignores = { "tests/**" = ["ACC3"] }',
    ),
    Key(
        "exclude",
        Kind.PATTERNS,
        "Files and folders not to look at, instead of the usual ones (.git, .venv, build, ...).",
        "the usual ones",
        'exclude = ["third_party"]',
    ),
    Key(
        "extend-exclude",
        Kind.PATTERNS,
        "Files and folders not to look at, beside `exclude`.",
        "[]",
        'extend-exclude = ["legacy"]',
    ),
    Key(
        "force-exclude",
        Kind.BOOLEAN,
        "Exclude also files that are named on the command line (as pre-commit does).",
        "false",
        "force-exclude = true",
    ),
    Key(
        "respect-gitignore", Kind.BOOLEAN, "Leave out what .gitignore leaves out.", "true", "respect-gitignore = false"
    ),
    Key(
        "output-format", Kind.CHOICE, "How findings are printed.", '"full"', 'output-format = "concise"', tuple(FORMATS)
    ),
    Key("fix", Kind.BOOLEAN, "Apply the safe repairs.", "false", "fix = true"),
    Key(
        "unsafe-fixes",
        Kind.BOOLEAN,
        "Apply the repairs that are not established to be safe as well.",
        "false",
        "unsafe-fixes = true",
    ),
    Key(
        "strategy",
        Kind.CHOICE,
        "How weights are repaired: divide the gradient at the boundary (`deferred`), or collect the window and count "
        "it first (`precount`). `auto` defers, but counts first where a GradScaler would overflow on raw loss sums.",
        '"auto"',
        'strategy = "precount"',
        STRATEGIES,
    ),
    Key(
        "require",
        Kind.CHOICE,
        "What must be established before a repair is applied, instead of `safe`.",
        "unset: safe repairs",
        'require = "executed"',
        REQUIREMENTS,
    ),
    Key(
        "loss-contracts",
        Kind.CONTRACTS,
        "For losses that are computed out of sight: the count that each one divides by.",
        "{}",
        'loss-contracts = { "my_project.model.MaskedLM" = "(labels != -100).sum()" }',
    ),
    Key(
        "extend-safe-fixes",
        Kind.CODES,
        "Rules whose unsafe repairs count as safe.",
        "[]",
        'extend-safe-fixes = ["ACC201"]',
    ),
    Key(
        "extend-unsafe-fixes",
        Kind.CODES,
        "Rules whose safe repairs count as unsafe.",
        "[]",
        'extend-unsafe-fixes = ["ACC304"]',
    ),
    Key(
        "baseline",
        Kind.TEXT,
        "A file of findings that are known and not reported.",
        "unset",
        'baseline = ".accumlint-baseline.json"',
    ),
    Key(
        "cache-dir",
        Kind.TEXT,
        "The folder of the cache, inside of the project.",
        '".accumlint_cache"',
        'cache-dir = ".cache/accumlint"',
    ),
)

BY_NAME: dict[str, Key] = {key.name: key for key in KEYS}


def schema() -> dict[str, Any]:
    """The JSON schema of the table `[tool.accumlint]`."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "accumlint",
        "description": "The table [tool.accumlint] of pyproject.toml",
        "type": "object",
        "additionalProperties": False,
        "properties": {key.name: {"description": key.help, **_property(key)} for key in KEYS},
    }


def _contract() -> dict[str, Any]:
    """A loss contract that says more than its count."""
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "count": {"type": "string", "description": "What the mean divides by, over the call's parameters."},
            "reduction": {"type": "string", "enum": list(REDUCTIONS)},
            "parameters": {"type": "array", "items": {"type": "string"}, "description": "Names by position."},
            "output": {"type": ["string", "integer"], "description": "Where the loss stands in the result."},
        },
    }


def _property(key: Key) -> dict[str, Any]:
    codes = {"type": "array", "items": {"type": "string", "pattern": CODE_PATTERN}}
    match key.kind:
        case Kind.CODES:
            return codes
        case Kind.PATTERNS:
            return {"type": "array", "items": {"type": "string"}}
        case Kind.BOOLEAN:
            return {"type": "boolean"}
        case Kind.CHOICE:
            return {"type": "string", "enum": list(key.choices)}
        case Kind.CODES_BY_PATTERN:
            return {"type": "object", "additionalProperties": codes}
        case Kind.CONTRACTS:
            return {"type": "object", "additionalProperties": {"oneOf": [{"type": "string"}, _contract()]}}
        case Kind.TEXT:
            return {"type": "string"}
