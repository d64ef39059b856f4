"""How long training loops take: ms per loop, and the ratio to `ast.parse` of the same file.

Usage: python benchmarks/loops.py FOLDER... [--repeat N] [--slowest N] [--budget]

Each file that can hold a training loop is read, interpreted and judged (`accumlint.contract.judge`), with the files of
its project that it follows, as a check does it. "per loop" is the time of the whole analysis of a file divided by its
training loops, "interpreter" the part of it that is not parsing. Times are of the processor, so that other work on the
machine counts less. With --budget the exit code is 1 if the median is above 50 ms or a loop above 3 s.
"""

from __future__ import annotations

import argparse
import ast
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from accumlint.contract.judge import Judged, judge_regions
from accumlint.reading.prefilter import may_train
from accumlint.reading.read import ReadError, read_module
from accumlint.reading.recursion import rare_collection

MEDIAN_BUDGET = 0.050
LARGEST_BUDGET = 3.0


@dataclass(frozen=True, slots=True)
class Timing:
    """Seconds for one file; `loops` is the number of regions that were run."""

    path: Path
    loops: int
    baseline: float
    reading: float
    running: float

    @property
    def per_loop(self) -> float:
        return (self.reading + self.running) / self.loops

    @property
    def ratio(self) -> float:
        return (self.reading + self.running) / self.baseline


def best(function: Callable[[], object], repeat: int) -> float:
    """The shortest of some runs, which is the one least disturbed by others."""
    seconds = []
    for _ in range(repeat):
        begin = time.process_time()
        function()
        seconds.append(time.process_time() - begin)
    return min(seconds)


@rare_collection()
def read_and_judge(text: str, filename: str) -> list[Judged]:
    """What `accumlint.analysis` does with a file that may hold a training loop, before it words its findings."""
    return judge_regions(read_module(text, filename))


def measure(path: Path, repeat: int) -> Timing | None:
    """None for a file without training loops, or one that does not parse."""
    data = path.read_bytes()
    if not may_train(data):
        return None
    text = data.decode("utf-8", "replace")
    try:
        module = read_module(text, str(path))
        loops = sum(judged.result.region.node >= 0 for judged in judge_regions(module))
        if not loops:
            return None
        return Timing(
            path,
            loops,
            best(lambda: ast.parse(text), repeat),
            best(lambda: read_module(text, str(path)), repeat),
            best(lambda: read_and_judge(text, str(path)), repeat) - best(lambda: read_module(text, str(path)), repeat),
        )
    except (ReadError, SyntaxError):
        return None


def files(folders: list[Path]) -> Iterator[Path]:
    """All Python files, in order."""
    for folder in folders:
        yield from [folder] if folder.is_file() else sorted(folder.rglob("*.py"))


def spread(name: str, values: list[float], unit: str, scale: float) -> str:
    """One line: median, 90th percentile and largest."""
    ordered = sorted(value * scale for value in values)
    ninth = ordered[min(len(ordered) - 1, len(ordered) * 9 // 10)]
    return f"{name:<24} median {statistics.median(ordered):8.1f}   90 % {ninth:8.1f}   max {ordered[-1]:8.1f} {unit}"


def main() -> int:
    """Measure, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each measurement; the best counts (default: 3)")
    parser.add_argument("--slowest", type=int, default=5, help="how many of the slowest files to name (default: 5)")
    parser.add_argument("--budget", action="store_true", help="exit with 1 above the budget")
    arguments = parser.parse_args()
    seen = list(files(arguments.folders))
    timings = [timing for path in seen if (timing := measure(path, arguments.repeat)) is not None]
    if not timings:
        print(f"no training loop in {len(seen)} files")
        return 0
    per_loop = [timing.per_loop for timing in timings for _ in range(timing.loops)]
    print(f"{len(seen)} files, {len(timings)} with training loops, {len(per_loop)} loops")
    print(spread("per loop", per_loop, "ms", 1000))
    print(spread("ast.parse of the file", [timing.baseline for timing in timings], "ms", 1000))
    print(spread("reading", [timing.reading for timing in timings], "ms", 1000))
    print(spread("interpreter", [timing.running for timing in timings], "ms", 1000))
    print(spread("whole file / ast.parse", [timing.ratio for timing in timings], "x", 1))
    for timing in sorted(timings, key=lambda timing: -timing.per_loop)[: arguments.slowest]:
        print(f"{timing.per_loop * 1000:8.0f} ms a loop, {timing.ratio:5.0f}x, {timing.loops} loops: {timing.path}")
    over = statistics.median(per_loop) > MEDIAN_BUDGET or max(per_loop) > LARGEST_BUDGET
    return 1 if over and arguments.budget else 0


if __name__ == "__main__":
    sys.exit(main())
