"""Feed broken and odd texts to the whole pipeline; nothing may raise, hang or be an internal fault.

    python scripts/fuzz.py TREE [TREE ...] [--inputs N] [--seed N] [--slowest SECONDS]

Each input is a file of the trees (those that can train among them first), as it is or mutated: pieces cut out, doubled,
moved, or replaced by tokens that mean something to a parser. Prints how many inputs were checked, refused and found to
hold something; exit code 1 for a fault, for an input slower than the limit, or if fewer than N were tried.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from accumlint.analysis import Options, check_source
from accumlint.reading.prefilter import may_train
from accumlint.source.suppressions import Suppressions
from accumlint.source.text import SourceError, SourceText

TOKENS = (
    "(", ")", "[", "]", "{", "}", ":", ",", "\n", "\n    ", "\t", "\r", "\x0c", "\0", "\\\n", '"""', "'", "#", "f'{",
    "lambda ", "yield ", "await ", "async ", "for x in ", "while True:", "if ", "else:", "match ", "case _:", "*", "**",
    "=", ":=", "->", "@", ".backward()", ".step()", "loss /= ", "0", "10**9", "None", "é", "\ud800", "\ufeff", "%",
    "return", "break", "continue", "del ", "import ", "from . import ", "global loss", "nonlocal x",
    "class A:", "def f():", "not ",
)  # fmt: skip
LONGEST = 30_000


def mutated(text: str, chance: random.Random) -> str:
    """The text with a few pieces changed."""
    for _ in range(chance.randrange(0, 6)):
        at = chance.randrange(len(text) + 1)
        until = min(len(text), at + chance.choice((0, 1, 1, 5, 40, 400)))
        piece = chance.choice((chance.choice(TOKENS), text[at:until] * 2, "", chance.choice(TOKENS) * 50))
        text = text[:at] + piece + text[until:]
    return text


def tried(data: bytes, name: str) -> str:
    """What came of one input."""
    try:
        source = SourceText.from_bytes(name, data)
    except SourceError:
        return "refused as bytes"
    Suppressions(source.text)
    report = check_source(source, Options())
    if any(problem.internal for problem in report.problems):
        raise AssertionError(report.problems)
    if source.encode(source.text) != data:
        raise AssertionError("does not round-trip")
    return "refused as text" if report.problems else "found" if report.findings else "clean"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slowest", type=float, default=30.0, help="seconds of the processor for one input")
    arguments = parser.parse_args()
    chance = random.Random(arguments.seed)
    files = [(path, path.read_bytes()) for tree in arguments.trees for path in sorted(tree.rglob("*.py"))]
    files = [(path, data) for path, data in files if 0 < len(data) < LONGEST]
    training = [each for each in files if may_train(each[1])]
    if not training:
        sys.exit("no file that can train")
    counts: Counter[str] = Counter()
    failed = 0
    for number in range(arguments.inputs):
        path, data = chance.choice(training if number % 3 else files)
        text = mutated(data.decode("utf-8", "replace"), chance)
        begin = time.process_time()
        try:
            counts[tried(text.encode("utf-8", "surrogatepass"), f"fuzz{number}.py")] += 1
        except Exception:
            failed += 1
            print(f"input {number} of seed {arguments.seed}, from {path}:")
            traceback.print_exc(limit=-3, file=sys.stdout)
        spent = time.process_time() - begin
        if spent > arguments.slowest:
            failed += 1
            print(f"input {number} of seed {arguments.seed}, from {path}: {spent:.1f} s")
    print(", ".join(f"{count} {what}" for what, count in counts.most_common()), f"; {failed} failed")
    return 1 if failed or sum(counts.values()) + failed < arguments.inputs else 0


if __name__ == "__main__":
    sys.exit(main())
