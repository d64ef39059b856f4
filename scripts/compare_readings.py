"""Hold the two readings of Python against each other: by `ast` and by libcst, node for node.

    python scripts/compare_readings.py TREE [TREE ...] [--texts] [--every N]

Every Python file that both can read must give the same IR and the same positions; with --texts the same texts too.
Prints how many files were compared and each that differs; exit code 1 if one does, or if none was read.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from accumlint.reading.ast_syntax import AstSyntax
from accumlint.reading.errors import ReadError
from accumlint.reading.read import NEWLINE, read_module
from accumlint.reading.read_concrete import read_concrete
from accumlint.reading.recursion import deep_recursion
from accumlint.source.text import SourceError, SourceText


def differences(text: str, name: str, texts: bool = True) -> list[str] | None:
    """What differs, in a line each; None for a text that is not read twice."""
    try:
        module = read_module(text, name)
        body, concrete = read_concrete(text, NEWLINE.split(text), 0)
    except ReadError:
        return None
    abstract = module.syntax
    if not isinstance(abstract, AstSyntax):
        return None
    with deep_recursion():
        if module.body != body:
            return [first_difference(module.body, body)]
    if len(abstract) != len(concrete):
        return [f"{len(abstract)} nodes and {len(concrete)}"]
    abstract.__dict__["concrete"] = concrete  # read once is enough
    found: list[str] = []
    for node in range(len(concrete)):
        if abstract.span(node) != concrete.span(node):
            found.append(f"{abstract.span(node)} is {concrete.span(node)}: {concrete.text(node)}")
        elif texts and abstract.text(node) != concrete.text(node):
            found.append(f"{abstract.text(node)!r} is {concrete.text(node)!r}")
    return found


def first_difference(left: object, right: object) -> str:
    """The smallest part in which two readings differ."""
    pairs: list[tuple[object, object]] = []
    if isinstance(left, tuple) and isinstance(right, tuple) and len(left) == len(right):
        pairs = list(zip(left, right, strict=True))
    elif type(left) is type(right) and hasattr(left, "__slots__"):
        pairs = [(getattr(left, name), getattr(right, name)) for name in left.__slots__]
    for one, other in pairs:
        if one != other:
            return first_difference(one, other)
    return f"{left!r} is {right!r}"[:400]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="+", type=Path)
    parser.add_argument("--texts", action="store_true", help="compare texts too")
    parser.add_argument("--every", type=int, default=1, help="only each N-th file")
    arguments = parser.parse_args()
    compared = skipped = different = 0
    for path in sorted(path for tree in arguments.trees for path in tree.rglob("*.py"))[:: arguments.every]:
        try:
            found = differences(SourceText.from_path(path).text, str(path), arguments.texts)
        except SourceError:
            found = None
        compared += found is not None
        skipped += found is None
        if found:
            different += 1
            print(f"{path}: {len(found)} differ, first: {found[0]}")
    print(f"{compared} files read twice, {skipped} not, {different} differ")
    return 1 if different or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
