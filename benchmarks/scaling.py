"""How the time and memory of a check grow: files, lines of a file and loops of a file are doubled.

    python benchmarks/scaling.py [--doublings N] [--budget]

For each of the three the processor time of each size is printed, and the exponent e of time ~ size^e that fits best (by
least squares on logarithms, after the time of an empty run is taken off). 1 is linear. Beside it stands the peak memory
of the process. With --budget the exit code is 1 for an exponent above 1.25 or a process above 150 MB.
"""

from __future__ import annotations

import argparse
import math
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

LIMIT = 1.25
MEMORY = 150.0  # MB
RUN = """
import resource, sys
from accumlint.cli.main import run
options = ["--isolated", "--exit-zero", "--no-cache", "--jobs", "1", "--output-format", "concise", "-qq"]
status = run(["check", *options, sys.argv[1]])
use = resource.getrusage(resource.RUSAGE_SELF)
print(status, use.ru_utime + use.ru_stime, use.ru_maxrss / 1024)
"""
LOOP = """
def train_{0}(model, loader, optimizer, criterion):
    for i, (x, y) in enumerate(loader):
        loss = criterion(model(x), y) / 4
        loss.backward()
        if (i + 1) % 4 == 0:
            optimizer.step()
            optimizer.zero_grad()
"""
PLAIN = """
def plain_{0}(values, limit={0}):
    total = 0
    for at, value in enumerate(values):
        if value > limit and at % 3 != 1:
            total += value * 2 - limit
    return {{"total": total, "count": len(values)}}
"""


def many_files(folder: Path, size: int) -> None:
    """`size` files: each tenth trains, the others do not."""
    for number in range(size):
        text = "".join(PLAIN.format(at) for at in range(10))
        (folder / f"m{number}.py").write_text(text + (LOOP.format(number) if number % 10 == 0 else ""))


def many_lines(folder: Path, size: int) -> None:
    """One file with one loop and `size` functions that have nothing to do with it."""
    (folder / "lines.py").write_text(LOOP.format(0) + "".join(PLAIN.format(at) for at in range(size)))


def many_loops(folder: Path, size: int) -> None:
    """One file with `size` training loops."""
    (folder / "loops.py").write_text("".join(LOOP.format(at) for at in range(size)))


AXES: dict[str, tuple[Callable[[Path, int], None], int]] = {
    "files": (many_files, 100),
    "lines of a file": (many_lines, 600),
    "loops of a file": (many_loops, 25),
}


def spend(build: Callable[[Path, int], None], size: int) -> tuple[float, float]:
    """Seconds of the processor, and the peak memory in MB, of a check."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder, size)
        done = subprocess.run([sys.executable, "-c", RUN, name], check=True, capture_output=True, text=True)
        status, seconds, memory = done.stdout.split()
        if status != "0":
            sys.exit(f"the check failed: {done.stderr}")
        return float(seconds), float(memory)


def exponent(sizes: list[int], seconds: list[float]) -> float:
    """The slope of log(seconds) over log(size)."""
    points = [(math.log(size), math.log(max(spent, 1e-4))) for size, spent in zip(sizes, seconds, strict=True)]
    middle_x = sum(x for x, _ in points) / len(points)
    middle_y = sum(y for _, y in points) / len(points)
    return sum((x - middle_x) * (y - middle_y) for x, y in points) / sum((x - middle_x) ** 2 for x, _ in points)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--doublings", type=int, default=3)
    parser.add_argument("--budget", action="store_true", help="exit with 1 beyond the limits")
    arguments = parser.parse_args()
    failed = False
    for name, (build, first) in AXES.items():
        empty, _ = spend(build, 1)
        sizes = [first * 2**step for step in range(arguments.doublings + 1)]
        spent = [spend(build, size) for size in sizes]
        for size, (seconds, memory) in zip(sizes, spent, strict=True):
            print(f"{name:16} {size:6}   {seconds:7.2f} s   {memory:6.0f} MB")
        found = exponent(sizes, [seconds - empty for seconds, _ in spent])
        print(f"{name:16} exponent {found:.2f}\n")
        failed |= found > LIMIT or max(memory for _, memory in spent) > MEMORY
    return 1 if failed and arguments.budget else 0


if __name__ == "__main__":
    sys.exit(main())
