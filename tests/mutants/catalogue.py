"""All mutants: every kind on every right loop that it applies to, and every wrong count that a loop could be given."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

from accumlint.repair.certificate import Applicability, Certificate
from accumlint.repair.confirm import certify_derived
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


# right loops that the tool does not yet call safe, and why
NOT_SAFE_YET = {
    "pre-count over slices": "the count is of the whole batch, and that the slices divide it up is not shown",
}


def original(name: str) -> str:
    """What the loop was before its repair: microbatch means with equal weights."""
    (base,) = (base for base in BASES if base.name == name)
    return write(KINDS["equal_weights"](read(base.text), base))


@cache
def certificate(name: str, text: str) -> Certificate:
    """The certificate that the tool gives `text` as a repair of the faulty form of the base `name`.

    No plan is believed: what must be the loss's normaliser is derived from `text` itself.
    """
    return certify_derived(original(name), text, f"{name}.py")


def rejected_by(found: Certificate) -> str:
    """Which checks refuse a text: "proof", "execution", "leaves", in this order."""
    words = {"not proved": "proof", "not executed": "execution", "not leaf-checked": "leaves"}
    said = [word for start, word in words.items() if any(line.startswith(start) for line in found.missing)]
    return ", ".join(said) or ("; ".join(found.missing) if found.applicability is not Applicability.SAFE else "")
