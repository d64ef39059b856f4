"""python -m tests.mutants: each kind of wrong repair, on how many loops, what execution and the certificate say."""

from __future__ import annotations

import sys
import warnings
from collections import defaultdict

from tests.mutants.bases import BASES
from tests.mutants.catalogue import certificate_level, mutants, source
from tests.mutants.execute import run_all


def main() -> int:
    warnings.filterwarnings("ignore")
    bases, found = run_all()
    print(f"{'right loop':36}{'execution':14}certificate")
    for base in BASES:
        said = "not run" if base.name not in bases else "differs" if bases[base.name] else "equal"
        print(f"{base.name:36}{said:14}{certificate_level(source(base)) or '-'}")
    rows: dict[str, list[tuple[str, str | None]]] = defaultdict(list)
    for mutant in mutants():
        answer = found.get((mutant.base, mutant.kind))
        said = "not run" if answer is None else "differs" if answer else "EQUAL"
        rows[mutant.kind].append((said, certificate_level(mutant.source)))
    print(f"\n{'kind of mutant':36}{'loops':>6}{'differ':>8}{'safe':>6}")
    for kind, answers in rows.items():
        safe = sum(level == "safe" for _, level in answers)
        hooked = any(level for _, level in answers)
        print(f"{kind:36}{len(answers):6}{sum(said == 'differs' for said, _ in answers):8}{safe if hooked else '-':>6}")
    wrong = [key for key, answer in found.items() if not answer] + [name for name, answer in bases.items() if answer]
    safe = sum(level == "safe" for answers in rows.values() for _, level in answers)
    print(f"\n{len(rows)} kinds, {sum(map(len, rows.values()))} mutants; called safe: {safe}")
    print(f"wrong in the catalogue: {wrong or 'none'}")
    return 1 if wrong or safe else 0


if __name__ == "__main__":
    sys.exit(main())
