"""Processor time of accumlint beside that of other linters, on the same trees, in one interleaved run.

    python benchmarks/peers.py TREE [TREE ...] [--rounds N] [--only NAME,...]

Each round runs each tool once on a tree, one after the other, so that whatever the machine does falls on all. Times
are those of the processor (user and system, of the process and all that it starts). Printed are the median and the
spread of each tool, and the ratio of accumlint to each peer: the median of the rounds' ratios. A peer that is not
installed is left out and named. "floor" reads and hashes the files and does nothing else; it is held to a warm run.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from importlib.util import find_spec
from pathlib import Path

CHECK = ("-m", "accumlint", "check", "--isolated", "--exit-zero", "--jobs", "1", "--output-format", "concise")
FLOOR = """
import hashlib, os, sys
for top, folders, files in os.walk(sys.argv[1]):
    folders.sort()
    for name in files:
        if name.endswith((".py", ".ipynb")):
            with open(os.path.join(top, name), "rb") as file:
                hashlib.blake2b(file.read(), digest_size=16).hexdigest()
"""


def commands(tree: Path, cache: Path) -> dict[str, list[str]]:
    """The tools that are here, by name."""
    python = [sys.executable]
    accumlint = [*python, *CHECK]
    found = {
        "accumlint": [*accumlint, "--no-cache", str(tree)],
        "accumlint without ACC108": [*accumlint, "--no-cache", "--ignore", "ACC108", str(tree)],
        "accumlint warm": [*accumlint, "--cache-dir", str(cache), str(tree)],
        "floor": [*python, "-c", FLOOR, str(tree)],
    }
    ruff = shutil.which("ruff", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]))
    if ruff:
        found["ruff"] = [ruff, "check", "--isolated", "--no-cache", "--quiet", "--exit-zero", str(tree)]
    if find_spec("flake8"):
        flake8 = [*python, "-m", "flake8", "--isolated", "--jobs", "1", "--exit-zero", str(tree)]
        found["flake8"] = [*flake8, "--extend-ignore", "ACC,TOR"]
    if find_spec("torchfix"):
        found["TorchFix"] = [*python, "-m", "torchfix", "--select", "ALL", str(tree)]
    return found


def spend(command: list[str]) -> float:
    """Seconds of the processor for one run. Exits if the tool fails to run."""
    before = os.times()
    done = subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    after = os.times()
    if done.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: exit code {done.returncode}: {done.stderr.decode(errors='replace')[-400:]}")
    return after.children_user + after.children_system - before.children_user - before.children_system


def measure(tree: Path, rounds: int, only: Iterable[str]) -> dict[str, list[float]]:
    """Seconds of each tool and round."""
    with tempfile.TemporaryDirectory() as folder:
        tools = commands(tree, Path(folder))
        chosen = {name: tools[name] for name in tools if not only or name in only}
        if "accumlint warm" in chosen:
            spend(chosen["accumlint warm"])
        times: dict[str, list[float]] = {name: [] for name in chosen}
        for _ in range(rounds):
            for name, command in chosen.items():
                times[name].append(spend(command))
    return times


def report(tree: Path, times: dict[str, list[float]]) -> None:
    """Print the times and the ratios of one tree."""
    files = sum(1 for _ in tree.rglob("*.py"))
    print(f"\n{tree.name}: {files} files")
    for name, seconds in times.items():
        print(f"  {name:26} median {statistics.median(seconds):8.2f} s   {min(seconds):.2f} to {max(seconds):.2f}")
    for mine, other in [(mine, other) for mine in times for other in times if _compared(mine, other)]:
        ratios = [a / b for a, b in zip(times[mine], times[other], strict=True)]
        spread = f"{min(ratios):.3f} to {max(ratios):.3f}"
        print(f"  {mine} / {other}: {statistics.median(ratios):.3f}   ({spread})")


def _compared(mine: str, other: str) -> bool:
    """The cold runs beside the peers, the warm one beside the floor."""
    if mine == "accumlint warm":
        return other == "floor"
    return mine.startswith("accumlint") and other in ("ruff", "flake8", "TorchFix")


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="", help="names of tools, separated by commas")
    arguments = parser.parse_args()
    for module in ("flake8", "torchfix"):
        if not find_spec(module):
            print(f"{module} is not installed: left out")
    only = [name.strip() for name in arguments.only.split(",") if name.strip()]
    for tree in arguments.trees:
        if not any(tree.rglob("*.py")):
            sys.exit(f"{tree}: no Python file")
        report(tree, measure(tree, arguments.rounds, only))
    return 0


if __name__ == "__main__":
    sys.exit(main())
