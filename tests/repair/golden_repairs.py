"""What the planner makes of each dev case, as reviewed diffs: `python tests/repair/golden_repairs.py` writes them anew.

One file a case and strategy in `golden/`: the unified diff of its repairs, then one line for each finding that is not
repaired. The strategy `precount` has a file only where it repairs something that the default repairs in another way.
"""

from __future__ import annotations

import difflib
from pathlib import Path

from accumlint.analysis import Options, check_source
from accumlint.findings import Fix
from accumlint.repair.rewrite import apply_edits
from accumlint.source.text import SourceText

CASES = sorted((Path(__file__).parents[1] / "cases" / "dev").glob("acc*.py"))
FOLDER = Path(__file__).with_name("golden")


def golden(path: Path, strategy: str) -> str:
    """The diffs of all repairs of a case, and why the other findings have none."""
    source = SourceText.from_bytes(path.name, path.read_bytes())
    findings = check_source(source, Options(repair=True, strategy=strategy)).findings
    fixes: dict[int, Fix] = {id(f.fix): f.fix for f in findings if f.fix is not None}
    parts = [diff(source.text, apply_edits(source.text, fix.edits)) for fix in fixes.values()]
    parts += [f"# {f.code} on line {f.span.line}: {f.unfixable}\n" for f in findings if f.fix is None]
    return "".join(parts)


def diff(before: str, after: str) -> str:
    lines = difflib.unified_diff(before.splitlines(keepends=True), after.splitlines(keepends=True), "before", "after")
    return "".join(line if line.endswith("\n") else f"{line}\n" for line in lines)


def golden_files(path: Path) -> dict[str, str]:
    """{file name: text} for a case."""
    usual, other = golden(path, "auto"), golden(path, "precount")
    found = {f"{path.stem}.diff": usual}
    if other != usual and other.startswith("---"):
        found[f"{path.stem}.precount.diff"] = other
    return found


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    wanted = {name: text for path in CASES for name, text in golden_files(path).items()}
    for old in FOLDER.glob("*.diff"):
        if old.name not in wanted:
            old.unlink()
    for name, text in wanted.items():
        (FOLDER / name).write_text(text, encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
