"""What the gates of `reading/prefilter.py` let through over trees of Python files, and what each stage costs.

    python benchmarks/gates.py TREE [TREE ...] [--read]

Prints, for all files together: how many pass the byte gate and the syntax gate, by flag, and milliseconds of CPU time
for a thousand lines of each stage. With --read the files that pass are parsed and lowered too.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from pathlib import Path

from accumlint.reading.prefilter import Gate, may_train, parse, worth_reading


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--read", action="store_true", help="parse and lower what passes")
    arguments = parser.parse_args()
    counts: Counter[str] = Counter()
    seconds: Counter[str] = Counter()
    lines: Counter[str] = Counter()
    for path in sorted(path for tree in arguments.trees for path in tree.rglob("*.py")):
        measure(path, arguments.read, counts, seconds, lines)
    if not counts["files"]:
        sys.exit("no Python file found")
    for name, count in counts.items():
        print(f"{name:16} {count:7}")
    for name, spent in seconds.items():
        print(f"{name:16} {1e6 * spent / max(lines[name], 1):7.2f} ms / 1,000 lines ({lines[name]} lines)")


def measure(path: Path, read: bool, counts: Counter[str], seconds: Counter[str], lines: Counter[str]) -> None:
    data = path.read_bytes()
    size = data.count(b"\n")

    def spend(name: str, start: float) -> None:
        seconds[name] += time.process_time() - start
        lines[name] += size

    counts["files"] += 1
    start = time.process_time()
    gate = may_train(data)
    spend("byte gate", start)
    if not gate:
        return
    tally(counts, "bytes", gate)
    text = data.decode(errors="replace")
    start = time.process_time()
    gate = worth_reading(parse(text), gate)
    spend("syntax gate", start)
    if not gate:
        return
    tally(counts, "syntax", gate)
    if read:
        from accumlint.reading.read import ReadError, read_module

        start = time.process_time()
        try:
            read_module(text, str(path))
        except ReadError:
            counts["refused"] += 1
        spend("read", start)


def tally(counts: Counter[str], stage: str, gate: Gate) -> None:
    counts[stage] += 1
    for flag in (Gate.LOOP, Gate.TRAINER, Gate.HEAD):
        counts[f"{stage} {flag.name}"] += bool(gate & flag)


if __name__ == "__main__":
    main()
