"""The text of a file with all of its repairs: what `verify` runs and `explain` draws beside the original."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accumlint.findings import Fix
    from accumlint.reading.contracts import LossContract
    from accumlint.source.text import SourceText

ROUNDS = 10


def repaired(source: SourceText, contracts: tuple[LossContract, ...] = ()) -> SourceText | None:
    """The text as `check --fix --unsafe-fixes` would leave it; None if it has no repair. Nothing is written."""
    from accumlint.analysis import Options, check_source
    from accumlint.cli.editing import apply, overlap
    from accumlint.repair.certificate import Applicability
    from accumlint.source.notebook import read_bytes

    options = Options(repair=True, contracts=contracts)
    text = source
    for _ in range(ROUNDS):
        fixes = {id(f.fix): f.fix for f in check_source(text, options).findings if f.fix is not None}
        chosen: list[Fix] = []
        for fix in fixes.values():
            is_display = fix.certificate.applicability is Applicability.DISPLAY
            if fix.edits and not is_display and not any(overlap(fix, other) for other in chosen):
                chosen.append(fix)
        if not chosen:
            break
        text = read_bytes(text.filename, text.encode(apply(text.text, chosen)))
    return None if text.text == source.text else text
