"""What a shell completes: codes of rules, keys of the configuration."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem


def codes(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The codes that begin as the last one of a list separated by commas."""
    from accumlint.rules.registry import all_rules

    before, comma, last = incomplete.rpartition(",")
    known = [(rule.code, rule.name) for rule in all_rules()]
    known += [("ALL", "every rule")] if parameter.name != "code" else []
    return [
        CompletionItem(f"{before}{comma}{code}", help=name) for code, name in known if code.startswith(last.upper())
    ]


def keys(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The keys of `[tool.accumlint]`."""
    from accumlint.cli.config_keys import KEYS

    return [CompletionItem(key.name, help=key.help) for key in KEYS if key.name.startswith(incomplete)]
