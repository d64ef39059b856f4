"""The rules, as the faces see them."""

from __future__ import annotations

from accumlint.rules import registry


def known_codes() -> frozenset[str]:
    return frozenset(rule.code for rule in registry.all_rules())


def default_codes() -> frozenset[str]:
    """The codes that are reported where nothing is selected."""
    return frozenset(rule.code for rule in registry.all_rules() if rule.state == "on")
