"""Feed broken and odd texts to the whole pipeline; nothing may raise, hang or be an internal fault.

    python scripts/fuzz.py TREE [TREE ...] [--inputs N] [--seed N] [--slowest SECONDS] [--repair]

Each input is a file of the trees (those that can train among them first), as it is or mutated: one half by pieces that
are cut out, doubled, moved, or replaced by tokens that mean something to a parser; the other half by statements and
expressions that change places, so that the text still parses and the interpreter sees it. Prints how many inputs were
checked, refused and found to hold something; exit code 1 for a fault, for an input slower than the limit, or if fewer
than N were tried. With `--repair`, findings are repaired too (without torch), and what is repaired must parse.
"""

from __future__ import annotations

import argparse
import ast
import copy
import random
import sys
import time
import traceback
from collections import Counter
from pathlib import Path

from accumlint.analysis import Options, check_source
from accumlint.reading.prefilter import may_train
from accumlint.repair.rewrite import apply_edits
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


def shuffled(text: str, chance: random.Random) -> str:
    """The text with a few statements doubled, dropped or exchanged, and expressions exchanged, if it parses."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    bodies = [
        body
        for node in ast.walk(tree)
        for name in ("body", "orelse", "finalbody")
        if isinstance(body := getattr(node, name, None), list) and body
    ]
    values = [(node, name) for node in ast.walk(tree) for name in ("value", "test", "iter") if is_value(node, name)]
    for _ in range(chance.randrange(1, 6) if bodies else 0):
        body, other = chance.choice(bodies), chance.choice(bodies)
        at, there = chance.randrange(len(body)), chance.randrange(len(other))
        what = chance.randrange(5)
        if what == 0:
            body.insert(at, copy.deepcopy(body[at]))
        elif what == 1 and len(body) > 1:
            del body[at]
        elif what == 2:
            body[at], other[there] = other[there], body[at]
        elif what == 3:
            body[at] = copy.deepcopy(other[there])
        elif values:
            (one, name), (two, second) = chance.choice(values), chance.choice(values)
            setattr(one, name, copy.deepcopy(getattr(two, second)))
    try:
        return ast.unparse(tree)
    except (ValueError, RecursionError):  # a statement that came to lie in itself
        return text


def is_value(node: ast.AST, name: str) -> bool:
    """Whether the part is an expression that another may stand for (no part of an f-string, for one)."""
    return isinstance(getattr(node, name, None), ast.expr) and not isinstance(node, ast.FormattedValue)


def tried(data: bytes, name: str, options: Options) -> str:
    """What came of one input."""
    try:
        source = SourceText.from_bytes(name, data)
    except SourceError:
        return "refused as bytes"
    Suppressions(source.text)
    report = check_source(source, options)
    if any(problem.internal for problem in report.problems):
        raise AssertionError(report.problems)
    if source.encode(source.text) != data:
        raise AssertionError("does not round-trip")
    for fix in {id(finding.fix): finding.fix for finding in report.findings if finding.fix is not None}.values():
        ast.parse(apply_edits(source.text, fix.edits))
    return "refused as text" if report.problems else "found" if report.findings else "clean"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--inputs", type=int, default=10_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--slowest", type=float, default=30.0, help="seconds of the processor for one input")
    parser.add_argument("--repair", action="store_true", help="repair what is found, and parse it again")
    arguments = parser.parse_args()
    options = Options(repair=arguments.repair)
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
        change = mutated if chance.random() < 0.5 else shuffled
        text = change(data.decode("utf-8", "replace"), chance)
        begin = time.process_time()
        try:
            counts[tried(text.encode("utf-8", "surrogatepass"), f"fuzz{number}.py", options)] += 1
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
