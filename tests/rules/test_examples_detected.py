"""The examples through the whole pipeline: each bad one is reported on its lines, each good one is silent."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from accumlint.analysis import Options, check_source
from accumlint.cli.main import cli
from accumlint.rules.base import Example, Rule
from accumlint.rules.registry import all_rules, default_codes, get_rule
from accumlint.source.text import SourceText

CASES = [
    pytest.param(rule, shown, id=f"{rule.code}-{kind}-{number}")
    for rule in all_rules()
    if rule.clause is not None
    for kind, examples in (("good", rule.good), ("bad", rule.bad))
    for number, shown in enumerate(examples)
]
SUPPRESSIONS = [
    pytest.param(shown, id=f"{kind}-{number}")
    for kind, examples in (("good", get_rule("ACC901").good), ("bad", get_rule("ACC901").bad))
    for number, shown in enumerate(examples)
]


def reported(shown: Example, code: str) -> list[tuple[str, int]]:
    """(code, line) of the default rules and of this one."""
    source = SourceText.from_bytes("example.py", shown.source.encode())
    report = check_source(source, Options(codes=default_codes() | {code}))
    assert not report.problems
    return sorted((finding.code, finding.span.line) for finding in report.findings)


def expected(shown: Example, code: str) -> list[tuple[str, int]]:
    return sorted([(code, line) for line in shown.lines] + list(shown.also))


@pytest.mark.parametrize(("rule", "shown"), CASES)
def test_examples(rule: Rule, shown: Example) -> None:
    assert reported(shown, rule.code) == expected(shown, rule.code)


@pytest.mark.parametrize("shown", SUPPRESSIONS)
def test_unused_suppressions(shown: Example, tmp_path: Path) -> None:
    path = tmp_path / "example.py"
    path.write_text(shown.source, encoding="utf-8")
    arguments = ["check", "--isolated", "--extend-select", "ACC901", "--output-format", "json", "-j", "1", str(path)]
    result = CliRunner().invoke(cli, arguments, standalone_mode=False)
    lines = [(found["code"], found["location"]["row"]) for found in json.loads(result.output)]
    assert lines == expected(shown, "ACC901")
