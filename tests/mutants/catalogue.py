"""All mutants: every kind on every right loop that it applies to, and every wrong count that a loop could be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tests.mutants.bases import BASES, Base
from tests.mutants.kinds import KINDS, MissingError, edit, read, write


@dataclass(frozen=True)
class Mutant:
    """A wrong repair: the source of `base` after the mutation `kind`."""

    base: str
    kind: str
    source: str
    entry: str
    features: dict[str, Any]

    @property
    def ranks(self) -> int:
        return self.features.get("ranks", 1)


def source(base: Base) -> str:
    """The right loop itself."""
    return write(read(base.text))


def mutants() -> list[Mutant]:
    found = []
    for base in BASES:
        lines = read(base.text)
        for kind, transform in KINDS.items():
            try:
                text = write(transform(list(lines), base))
            except MissingError:
                continue
            found.append(Mutant(base.name, kind, text, base.entry, base.features))
        for kind, count in base.wrong_counts.items():
            mark = "count" if any("count" in line.marks for line in lines) else "total"
            text = write(edit(list(lines), mark, base.count, count))
            found.append(Mutant(base.name, kind, text, base.entry, base.features))
    return found


def certificate_level(text: str) -> str | None:
    """The best certificate that the tool would give this text as a repair: "safe", "unsafe", "display", or None.

    None: there is no hook yet. The gate is `accumlint.repair.certify_text(text) -> Certificate` (or whatever takes its
    place here): it must judge the text by itself, without the original. No mutant may come back as "safe".
    """
    try:
        from accumlint.repair import certify_text  # type: ignore[attr-defined]
    except ImportError:
        return None
    return str(certify_text(text).applicability.value)
