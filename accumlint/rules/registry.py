"""The one registry of rules, filled by dropping a file `accNNN_name.py` into this folder."""

from __future__ import annotations

import difflib
import importlib
import pkgutil
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from accumlint.rules.base import Rule

_MODULE = re.compile(r"acc\d{3}_\w+")
_CODE = re.compile(r"ACC\d{3}")


class UnknownCodeError(ValueError):
    """A selection that names no rule; the text holds the nearest code or name."""


def collect(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """Sorted by code. Raises ValueError on a duplicate code or name, or on a code that is not `ACC` + three digits."""
    by_code: dict[str, Rule] = {}
    names: dict[str, str] = {}
    for rule in rules:
        if not _CODE.fullmatch(rule.code):
            raise ValueError(f"{type(rule).__name__}: {rule.code!r} is not ACC and three digits")
        if rule.code in by_code:
            raise ValueError(f"{rule.code} is defined by {type(by_code[rule.code]).__name__} and {type(rule).__name__}")
        if rule.name in names:
            raise ValueError(f"{rule.code} and {names[rule.name]} have the same name {rule.name!r}")
        by_code[rule.code] = rule
        names[rule.name] = rule.code
    return tuple(by_code[code] for code in sorted(by_code))


@cache
def all_rules() -> tuple[Rule, ...]:
    """Every rule, sorted by code; the folder is scanned once."""
    found: list[Rule] = []
    for info in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if not _MODULE.fullmatch(info.name):
            continue
        module = importlib.import_module(f"accumlint.rules.{info.name}")
        classes = [each for each in vars(module).values() if isinstance(each, type)]
        found += [rule() for rule in classes if issubclass(rule, Rule) and rule.__module__ == module.__name__]
    return collect(found)


def get_rule(code: str) -> Rule:
    """By code or by name, in any case. Raises UnknownCodeError with a suggestion."""
    wanted = code.strip()
    for rule in all_rules():
        if wanted.upper() == rule.code or wanted.lower() == rule.name:
            return rule
    raise UnknownCodeError(f"unknown rule {wanted!r}{suggestion(wanted)}")


def suggestion(text: str) -> str:
    """`; did you mean ACC101?` for the nearest code or name, or nothing."""
    known = {word.lower(): word for rule in all_rules() for word in (rule.code, rule.name)}
    near = difflib.get_close_matches(text.strip().lower(), known, n=1, cutoff=0.6)
    return f"; did you mean {known[near[0]]}?" if near else ""


def default_codes() -> frozenset[str]:
    """The codes that are on without being selected."""
    return frozenset(rule.code for rule in all_rules() if rule.state == "on")


def select(selectors: Iterable[str]) -> frozenset[str]:
    """Codes (`ACC101`), names, prefixes (`ACC1`, `ACC`) and `ALL`. Raises UnknownCodeError if one matches nothing."""
    chosen: set[str] = set()
    for selector in selectors:
        wanted = selector.strip()
        if wanted.upper() == "ALL":
            matched = {rule.code for rule in all_rules()}
        else:
            matched = {
                rule.code
                for rule in all_rules()
                if (wanted.upper().startswith("ACC") and rule.code.startswith(wanted.upper()))
                or rule.name == wanted.lower()
            }
        if not matched:
            raise UnknownCodeError(f"unknown rule or prefix {wanted!r}{suggestion(wanted)}")
        chosen |= matched
    return frozenset(chosen)
