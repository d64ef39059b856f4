"""`accumlint rule`: a rule's page."""

from __future__ import annotations

import json
from typing import Any

import click

from accumlint.cli.complete import codes
from accumlint.cli.errors import CLEAN, UsageError
from accumlint.report.model import rule_url
from accumlint.rules.base import Rule


@click.command("rule", short_help="Explain a rule.")
@click.argument("code", required=False, shell_complete=codes)
@click.option("--all", "everything", is_flag=True, help="Explain all rules.")
@click.option("--output-format", type=click.Choice(["text", "json"]), default="text", help="[default: text]")
def command(code: str | None, everything: bool, output_format: str) -> int:
    """Print the page of a rule, by its code (ACC101) or its name (equal-target-weight)."""
    from accumlint.rules import registry
    from accumlint.rules.page import page

    if (code is None) == (not everything):
        raise UsageError("rule: name one rule, or use --all")
    try:
        chosen = registry.all_rules() if code is None else (registry.get_rule(code),)
    except registry.UnknownCodeError as error:
        raise UsageError(str(error)) from None
    if output_format == "json":
        described = [_described(rule, page(rule)) for rule in chosen]
        click.echo(json.dumps(described if everything else described[0], indent=2))
    else:
        click.echo("\n".join(page(rule) for rule in chosen), nl=False)
    return CLEAN


def _described(rule: Rule, text: str) -> dict[str, Any]:
    return {
        "code": rule.code,
        "name": rule.name,
        "summary": rule.summary,
        "explanation": text,
        "fix": rule.repair.value if rule.repair else None,
        "fix_safety": rule.repair_safety,
        "opt_in": rule.opt_in,
        "preview": rule.preview,
        "url": rule_url(rule.code),
    }
