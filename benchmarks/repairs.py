"""Which findings are repaired, with what is established about each repair, and why the others are not.

    python benchmarks/repairs.py TREE [TREE ...] [--no-confirm] [--strategy precount] [--show REASON] [--plain]

Prints findings by code and level (safe, unsafe, display, no repair), then the reasons of the findings without a repair
and what is missing to the unsafe ones, the most frequent first. --show TEXT lists the places of all reasons that hold
TEXT; --plain leaves out files that use a framework or several ranks.
"""

from __future__ import annotations

import argparse
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from accumlint.analysis import Options, check_source
from accumlint.findings import Finding
from accumlint.source.text import SourceError, SourceText

LEVELS = ("safe", "unsafe", "display", "none")
GOAL = ("ACC101", "ACC103", "ACC107", "ACC201", "ACC301", "ACC304")
FRAMEWORKS = re.compile(
    r"accelerat|fabric|lightning|deepspeed|DistributedDataParallel|fully_shard|FSDP|all_reduce|horovod|DataParallel"
)
QUOTED = re.compile(r"`[^`]*`")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--no-confirm", action="store_true", help="prove only, without torch")
    parser.add_argument("--strategy", default=None, help="deferred or precount")
    parser.add_argument("--show", default=None, metavar="REASON", help="list the places of these reasons")
    parser.add_argument("--plain", action="store_true", help="only files in plain PyTorch, of one rank")
    arguments = parser.parse_args()
    options = Options(repair=True, confirm=not arguments.no_confirm)
    if arguments.strategy:
        options = Options(repair=True, confirm=options.confirm, strategy=arguments.strategy)
    levels: Counter[tuple[str, str]] = Counter()
    reasons: Counter[str] = Counter()
    places: dict[str, list[str]] = {}
    for finding in findings(arguments.trees, options, arguments.plain):
        levels[finding.code, level_of(finding)] += 1
        for reason in reasons_of(finding):
            reasons[reason] += 1
            places.setdefault(reason, []).append(f"{finding.filename}:{finding.span.line} {finding.code}")
    print(table(levels))
    for reason, count in reasons.most_common():
        print(f"{count:5}  {reason}")
        if arguments.show is not None and arguments.show in reason:
            print("\n".join(f"           {place}" for place in places[reason]))


def findings(trees: list[Path], options: Options, plain: bool) -> Iterator[Finding]:
    for path in sorted(path for tree in trees for path in ([tree] if tree.is_file() else tree.rglob("*.py"))):
        try:
            source = SourceText.from_bytes(str(path), path.read_bytes())
        except SourceError:
            continue
        if plain and FRAMEWORKS.search(source.text):
            continue
        yield from check_source(source, options).findings


def level_of(finding: Finding) -> str:
    return finding.fix.certificate.applicability.value if finding.fix is not None else "none"


def reasons_of(finding: Finding) -> list[str]:
    """Why a finding has no repair, or what its unsafe repair lacks; names are left out, so that kinds are counted."""
    if finding.fix is None:
        return [QUOTED.sub("`...`", f"none: {finding.unfixable}")]
    if level_of(finding) == "safe":
        return []
    found = (*finding.fix.certificate.missing, finding.fix.certificate.disagreement)
    return [QUOTED.sub("`...`", f"{level_of(finding)}: {reason}") for reason in found if reason]


def table(levels: Counter[tuple[str, str]]) -> str:
    codes = sorted({code for code, _ in levels})
    rows = [f"{'code':8}" + "".join(f"{level:>9}" for level in LEVELS)]
    rows += [f"{code:8}" + "".join(f"{levels[code, level]:9}" for level in LEVELS) for code in codes]
    for name, chosen in (("all", codes), ("goal", [code for code in codes if code in GOAL])):
        sums = {level: sum(levels[code, level] for code in chosen) for level in LEVELS}
        total = sum(sums.values())
        share = f"   safe {100 * sums['safe'] / total:.0f} %" if total else ""
        rows.append(f"{name:8}" + "".join(f"{sums[level]:9}" for level in LEVELS) + share)
    return "\n".join(rows)


if __name__ == "__main__":
    main()
