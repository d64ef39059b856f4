"""What is shown when the pointer rests on a finding, or on the code of a rule in a comment: the rule's page."""

from __future__ import annotations

import re

from accumlint.findings import Finding
from accumlint.report.full import details, established_checks
from accumlint.report.model import CheckedFile, rule_url
from accumlint.rules import registry
from accumlint.rules.page import page

CODE = re.compile(r"\bACC\d{3}\b")


def code_at(line: str, column: int) -> str | None:
    """The code of a rule that the column is in."""
    for match in CODE.finditer(line):
        if match.start() <= column <= match.end():
            return match.group()
    return None


def of_finding(file: CheckedFile, finding: Finding) -> str:
    """The finding in full, as the command line explains it, above the page of its rule. Markdown."""
    notes = [f"counts differ because: {reason}" for reason, _ in finding.evidence]
    notes.append(f"level: {finding.level}")
    notes += [f"assumes: {assumption}" for assumption in finding.assumptions]
    notes += [f"help: {finding.hint}"] if finding.hint else []
    if finding.fix is not None:
        applicability = file.applicability(finding)
        word = applicability.value if applicability else "display"
        established = established_checks(finding.fix.certificate) or "nothing established"
        notes.append(f"repair: {word} ({established}): {finding.fix.message}")
        notes += details(finding.fix.certificate)
    elif finding.unfixable:
        notes.append(f"repair: none: {finding.unfixable}")
    listed = "\n".join(f"- {note}" for note in notes)
    return f"**{finding.code}** {finding.message}\n\n{listed}\n\n---\n\n{of_rule(finding.code)}"


def of_rule(code: str) -> str:
    """The page of a rule; empty for a code that there is none of. Markdown."""
    try:
        return f"{page(registry.get_rule(code))}\n[{code} in the documentation]({rule_url(code)})\n"
    except registry.UnknownCodeError:
        return ""
