"""Count findings by code and by what has been established about their repairs.

Usage: python scripts/repair_levels.py FOLDER ... [--ignore CODES] [--list] [--jobs N]

Checks files and folders with `--confirm` (each repair is proved, and executed with torch where it is installed) and
prints Markdown: a table code x level (safe, unsafe, display, none), then how often each reason kept a repair from being
safe. Both are printed for the files of each kind of loop: `plain` (PyTorch alone), `accelerate`, and `framework`, where
a file imports another library that drives or changes training steps (Lightning, DeepSpeed, a Trainer of transformers,
torchtune, ...). The kind is a file's, read from its imports: a loop of plain PyTorch in a file that imports such a
library counts as one of a framework. --list prints every finding with its place instead of counts of reasons.
"""

from __future__ import annotations

import argparse
import ast
import collections
import json
import os
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LEVELS = ("safe", "unsafe", "display", "none")
KINDS = ("plain", "accelerate", "framework")
FRAMEWORKS = frozenset(
    {
        "apex", "catalyst", "colossalai", "composer", "deepspeed", "fairseq", "fairseq2", "ignite", "lightning",
        "lightning_fabric", "megatron", "mmengine", "nemo", "pytorch_lightning", "timm", "torchtune", "trl",
    }
)  # fmt: skip
NAMED = re.compile(r"`[^`]*`|\bline \d+")


@dataclass(frozen=True, slots=True)
class Counted:
    """One finding: where it stands, in what kind of file, and what is known about its repair."""

    kind: str
    code: str
    level: str
    reason: str  # why it is not safe; "" where it is
    place: str


def kind_of(text: str) -> str:
    """What the imports of a file say about its loops."""
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):  # a notebook
        return "plain"
    packages: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            packages |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            top = node.module.partition(".")[0]
            trainer = top == "transformers" and any(alias.name.endswith("Trainer") for alias in node.names)
            packages |= {"lightning" if trainer else top}
    if packages & FRAMEWORKS:
        return "framework"
    return "accelerate" if "accelerate" in packages else "plain"


def counted(rows: Iterable[dict[str, object]]) -> list[Counted]:
    """The findings of a JSON report."""
    kinds: dict[str, str] = {}
    found = []
    for row in rows:
        filename, location = str(row["filename"]), row["location"]
        assert isinstance(location, dict)
        if filename not in kinds:
            kinds[filename] = kind_of(Path(filename).read_text(encoding="utf-8", errors="replace"))
        level, reason = level_of(row)
        place = f"{filename}:{location['row']}"
        found.append(Counted(kinds[filename], str(row["code"]), level, reason, place))
    return found


def level_of(row: dict[str, object]) -> tuple[str, str]:
    """The level of a finding's repair, and why it is not safe."""
    certificate = row["certificate"]
    if not isinstance(certificate, dict):
        return "none", str(row["unfixable"] or "")
    level = str(certificate["applicability"])
    if level == "safe":
        return level, ""
    missing = certificate["disagreement"] or "; ".join(certificate["missing"]) or "; ".join(certificate["notes"])
    return level, str(missing)


def table(found: Sequence[Counted]) -> str:
    """Code x level, in Markdown."""
    lines = [f"| code | {' | '.join(LEVELS)} | together | safe |", "|---" * (len(LEVELS) + 3) + "|"]
    for code in [*sorted({each.code for each in found}), "all"]:
        levels = collections.Counter(each.level for each in found if code in (each.code, "all"))
        numbers = " | ".join(str(levels[level]) for level in LEVELS)
        total = sum(levels.values())
        lines.append(f"| {code} | {numbers} | {total} | {100 * levels['safe'] / max(total, 1):.0f} % |")
    return "\n".join(lines)


def reasons(found: Iterable[Counted]) -> str:
    """How often each reason kept a repair from being safe; what names a place or a thing of one file counts as one."""
    kept: dict[tuple[str, str], list[str]] = {}
    for each in found:
        if each.level != "safe":
            kept.setdefault((each.level, NAMED.sub("...", each.reason) or "no reason is given"), []).append(each.code)
    return "\n".join(
        f"- {len(codes)} {level} ({', '.join(sorted(set(codes)))}): {reason}"
        for (level, reason), codes in sorted(kept.items(), key=lambda item: -len(item[1]))
    )


def checked(paths: Sequence[str], ignore: str, jobs: int) -> list[Counted]:
    """Run the tool over files and folders."""
    command = [sys.executable, "-m", "accumlint", "check", "--isolated", "--no-cache", "--confirm", "--ignore-noqa"]
    command += ["--exclude", ".git", "--no-respect-gitignore", "--output-format", "json", "--jobs", str(jobs)]
    command += ["--ignore", ignore] if ignore else []
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run([*command, *paths], stdout=subprocess.PIPE, text=True, check=False, env=environment)
    try:
        return counted(json.loads(done.stdout))
    except json.JSONDecodeError:
        raise SystemExit(f"accumlint gave no report: exit {done.returncode}") from None


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="+", help="files and folders")
    parser.add_argument("--ignore", default="", metavar="CODES", help="rules to leave out, separated by commas")
    parser.add_argument("--list", action="store_true", help="print every finding with its place and its reason")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default 2)")
    options = parser.parse_args(arguments)
    found = checked(options.paths, options.ignore, options.jobs)
    for kind in KINDS:
        of_kind = [each for each in found if each.kind == kind]
        if of_kind:
            print(f"## {kind}\n\n{table(of_kind)}\n")
            print(reasons(of_kind) if not options.list else "\n".join(map(line_of, of_kind)), end="\n\n")
    return 0


def line_of(each: Counted) -> str:
    """One finding as --list prints it."""
    return f"{each.place} {each.code} {each.level}: {each.reason}".rstrip(": ")


if __name__ == "__main__":
    sys.exit(main())
