"""A rule as a page of Markdown: for `accumlint rule CODE` and for docs/rules."""

from __future__ import annotations

import inspect
import re

from accumlint.rules.base import Example, Rule

SECTIONS = ("What it does", "Why it is bad", "Exceptions", "References")  # in every rule's docstring, in this order
_HEADING = re.compile(r"^## (.+)$", re.MULTILINE)


def sections(rule: Rule) -> dict[str, str]:
    """The docstring's sections by heading; the first line is under the empty heading."""
    parts = _HEADING.split(inspect.getdoc(rule) or "")
    return {"": parts[0].strip()} | dict(zip(parts[1::2], (text.strip() for text in parts[2::2]), strict=True))


def listing(shown: Example, code: str) -> str:
    """The example as a fenced block; each reported line ends in a comment with its code."""
    marks: dict[int, list[str]] = {line: [code] for line in shown.lines}
    for other, line in shown.also:
        marks.setdefault(line, []).append(other)
    lines = shown.source.rstrip("\n").split("\n")
    marked = [text + (f"  # {', '.join(marks[n])}" if n in marks else "") for n, text in enumerate(lines, start=1)]
    return "\n".join(["```python", *marked, "```"])


def _with_reason(shown: Example, code: str) -> str:
    return (f"{shown.why}\n\n" if shown.why else "") + listing(shown, code)


def page(rule: Rule) -> str:
    """The whole page, ending in one newline."""
    text = sections(rule)
    repair = f"Repair: {rule.repair.value}." if rule.repair else "Reported only."
    status = "Off by default; select it to turn it on. " if rule.state != "on" else ""
    preview = "In preview. " if rule.preview else ""
    blocks = [
        f"# {rule.name} ({rule.code})",
        text[""],
        f"{status}{preview}{repair}",
        f"## What it does\n\n{text['What it does']}",
        f"## Why it is bad\n\n{text['Why it is bad']}",
        f"## Example\n\n{_with_reason(rule.bad[0], rule.code)}",
        f"## Use instead\n\n{_with_reason(rule.good[0], rule.code)}",
        f"## Exceptions\n\n{text['Exceptions']}",
        f"## Repair safety\n\n{rule.repair_safety}",
        f"## References\n\n{text['References']}",
    ]
    blocks += ["## More that is reported", *(_with_reason(shown, rule.code) for shown in rule.bad[1:])]
    blocks += ["## More that stays silent", *(_with_reason(shown, rule.code) for shown in rule.good[1:])]
    return "\n\n".join(blocks) + "\n"


def index(rules: tuple[Rule, ...]) -> str:
    """The table of all rules."""
    lines = [
        "# Rules",
        "",
        "Every rule reads one clause of the contract: the update of a window equals the full-batch update",
        "`g = sum_k S_k / sum_k n_k`, with S_k the gradient of microbatch k's summed loss and n_k its valid targets.",
        "",
        "| code | name | meaning | default | repair |",
        "|---|---|---|---|---|",
    ]
    for rule in rules:
        repair = rule.repair.value if rule.repair else "reported only"
        lines.append(f"| [{rule.code}]({rule.code}.md) | {rule.name} | {rule.summary} | {rule.state} | {repair} |")
    return "\n".join(lines) + "\n"
