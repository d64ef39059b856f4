"""Attach repairs to the findings of a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accumlint.contract.judge import Judged
    from accumlint.findings import FileReport
    from accumlint.reading.program import Module
    from accumlint.source.text import SourceText


def attach_repairs(
    source: SourceText,
    module: Module,
    judged: Iterable[Judged],
    report: FileReport,
    *,
    strategy: str = "deferred",
    confirm: bool = False,
) -> None:
    """Plan, rewrite, prove and confirm; sets `fix` or `unfixable` of each finding."""
