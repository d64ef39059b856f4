"""ACC901: suppressions of ours that suppress nothing. It reads comments, so it is made here and not by the engine."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from accumlint.findings import Edit, Finding, Fix
from accumlint.reading.program import Span
from accumlint.repair.certificate import Certificate
from accumlint.report.model import UNUSED_SUPPRESSION
from accumlint.rules import registry
from accumlint.source.suppressions import Suppressions


def unused_suppressions(
    suppressions: Suppressions, filename: str, active: Collection[str], known: Collection[str]
) -> Iterator[Finding]:
    """To be asked when all findings have been held against the suppressions."""
    rule = registry.get_rule(UNUSED_SUPPRESSION)
    for unused in suppressions.unused(active, known):
        edit = suppressions.removal(unused)
        span = Span(edit.line, edit.column, edit.end_line, edit.end_column)
        codes = ", ".join(unused.codes)
        certificate = Certificate(needs_leaf=False, notes=("only a comment changes",))
        yield Finding(
            UNUSED_SUPPRESSION,
            rule.name,
            f"noqa for {codes} suppresses nothing; remove {'it' if len(unused.codes) == 1 else 'them'}",
            filename,
            Span(unused.line, unused.column, unused.line, unused.end_column),
            hint=f"remove {codes} from the comment",
            fix=Fix(f"Remove the unused noqa for {codes}", (Edit(span, edit.content),), certificate),
        )
