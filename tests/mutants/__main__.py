"""python -m tests.mutants [--write FILE]: each kind of wrong repair, what execution says and what the certificate says.

With `--write` the table of certificates is put between the marks of a Markdown file (docs/certificates.md).
"""

from __future__ import annotations

import sys
import warnings
from collections import Counter, defaultdict
from pathlib import Path

from accumlint.repair.certificate import Applicability, Check
from tests.mutants.bases import BASES
from tests.mutants.catalogue import certificate, mutants, rejected_by, source
from tests.mutants.execute import run_all

BEGIN, END = "<!-- begin: python -m tests.mutants -->", "<!-- end -->"


def base_rows() -> list[tuple[str, ...]]:
    rows = []
    for base in BASES:
        found = certificate(base.name, source(base))
        rows.append((base.name, found.applicability.value, found.level, rejected_by(found) or "-"))
    return rows


def mutant_rows() -> list[tuple[str, ...]]:
    """(kind, loops, refused by the proof, by execution, by the leaves, safe)."""
    said: dict[str, Counter[str]] = defaultdict(Counter)
    for mutant in mutants():
        found = certificate(mutant.base, mutant.source)
        said[mutant.kind]["loops"] += 1
        said[mutant.kind]["safe"] += found.applicability is Applicability.SAFE
        said[mutant.kind]["proof"] += Check.PROVED not in found.discharged
        said[mutant.kind]["execution"] += Check.EXECUTED not in found.discharged
        said[mutant.kind]["leaves"] += any(line.startswith("not leaf-checked") for line in found.missing)
    columns = ("loops", "proof", "execution", "leaves", "safe")
    return [(kind, *(str(counts[column]) for column in columns)) for kind, counts in said.items()]


def markdown() -> str:
    tables = (
        (("right loop", "certificate", "level", "refused by"), base_rows()),
        (("wrong repair", "loops", "proof refuses", "execution refuses", "leaves refuse", "safe"), mutant_rows()),
    )
    lines: list[str] = []
    for head, rows in tables:
        lines += [
            "",
            f"| {' | '.join(head)} |",
            "|" + " --- |" * len(head),
            *(f"| {' | '.join(row)} |" for row in rows),
        ]
    return "\n".join(lines[1:])


def write_into(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    before, _, rest = text.partition(BEGIN)
    path.write_text(f"{before}{BEGIN}\n{markdown()}\n{END}{rest.partition(END)[2]}", encoding="utf-8")


def main() -> int:
    warnings.filterwarnings("ignore")
    if "--write" in sys.argv:
        write_into(Path(sys.argv[sys.argv.index("--write") + 1]))
        return 0
    bases, found = run_all()
    print(f"{'right loop':36}{'execution':14}{'certificate':14}{'level':14}refused by")
    for name, *rest in base_rows():
        run = "not run" if name not in bases else "differs" if bases[name] else "equal"
        print(f"{name:36}{run:14}{rest[0]:14}{rest[1]:14}{rest[2]}")
    differ = Counter(kind for (_, kind), answer in found.items() if answer)
    rows = mutant_rows()
    print(f"\n{'kind of mutant':36}{'loops':>6}{'differ':>8}{'proof':>7}{'exec':>6}{'leaves':>8}{'safe':>6}")
    for kind, loops, proof, execution, leaves, safe in rows:
        print(f"{kind:36}{loops:>6}{differ[kind]:>8}{proof:>7}{execution:>6}{leaves:>8}{safe:>6}")
    wrong = [key for key, answer in found.items() if not answer] + [name for name, answer in bases.items() if answer]
    called = sum(int(row[-1]) for row in rows)
    print(f"\n{len(rows)} kinds, {len(mutants())} mutants; called safe: {called}")
    print("the columns proof, exec and leaves count the mutants that each check refuses")
    print(f"wrong in the catalogue: {wrong or 'none'}")
    return 1 if wrong or called else 0


if __name__ == "__main__":
    sys.exit(main())
