"""Run accumlint over released wheels and compare its findings with the list in tests/quality/wheels.json.

Usage: python scripts/check_wheels.py (--cache FOLDER | --unzipped FOLDER) [--only NAME ...] [--update] [--loops]

With --cache the wheels are downloaded by pip (once) and unzipped in FOLDER; with --unzipped FOLDER holds one folder for
each package already. Every finding that the list does not have is printed as gained, every one that is gone as lost,
with the verdict that a reader gave it; exit 1 if there is any. Rows with the verdict `missed` are faults that the tool
does not report yet: one that appears is a gain too. --update writes the list anew: new rows get the verdict `unread`,
a `missed` one that was found becomes `right`, a `right` one that was lost `missed`, other lost rows go. --loops prints
a table of how many loops of each package were analysed, and why the others were not, in Markdown.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import re
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "tests" / "quality" / "wheels.json"
VERDICTS = ("right", "wrong", "arguable", "unread", "missed")

Row = dict[str, Any]
Key = tuple[str, str, int, str]


@dataclass(frozen=True)
class Package:
    """A wheel, and which codes it is checked for."""

    name: str
    version: str
    ignore: tuple[str, ...]


def normal(name: str) -> str:
    """A package's name as the index writes it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def key_of(row: Row) -> Key:
    return (row["package"], row["path"], row["line"], row["code"])


def downloaded(package: Package, cache: Path) -> Path:
    """The folder of an unzipped wheel, downloaded if need be."""
    folder = cache / f"{normal(package.name)}-{package.version}"
    if folder.is_dir():
        return folder
    wheels = cache / "wheels"
    wheels.mkdir(parents=True, exist_ok=True)
    requirement = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"]
    subprocess.run([*command, "--dest", str(wheels), requirement], check=True)
    name = normal(package.name).replace("-", "[-_.]")
    pattern = re.compile(rf"{name}-{re.escape(package.version)}-.*\.whl", re.IGNORECASE)
    found = [wheel for wheel in wheels.iterdir() if pattern.fullmatch(wheel.name)]
    if not found:
        raise FileNotFoundError(f"pip left no wheel of {requirement} in {wheels}")
    with zipfile.ZipFile(found[0]) as archive:
        archive.extractall(folder)
    return folder


def unzipped(package: Package, parent: Path) -> Path:
    """The folder of a package that somebody unzipped: its name, with or without the version."""
    wanted = (normal(package.name), f"{normal(package.name)}-{normal(package.version)}")
    for folder in sorted(parent.iterdir()):
        if folder.is_dir() and normal(folder.name) in wanted:
            return folder
    raise FileNotFoundError(f"no folder of {package.name} in {parent}")


FINDING = re.compile(r"(?P<path>.+?):(?P<line>\d+):\d+: (?P<code>ACC\d{3}) ")
UNREACHED = re.compile(r".+?:\d+:\d+: loop not analysed: (?P<reason>[^:]+)")
ANALYSED = re.compile(r"(?P<count>\d+) training loops? analysed")


@dataclass(frozen=True)
class Outcome:
    """What the tool says of a package: its findings, the loops it analysed, and why it did not analyse others."""

    package: Package
    rows: list[Row]
    analysed: int
    reasons: collections.Counter[str]


def outcome(package: Package, folder: Path) -> Outcome:
    """Run the tool over a package."""
    command = [sys.executable, "-m", "accumlint", "check", "--isolated", "--select", "ALL", "--verbose"]
    if package.ignore:
        command += ["--ignore", ",".join(package.ignore)]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        [*command, "--output-format", "concise", str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )
    if done.returncode not in (0, 1):
        raise RuntimeError(f"{package.name}: exit {done.returncode}\n{done.stderr[-2000:]}")
    rows: list[Row] = []
    reasons: collections.Counter[str] = collections.Counter()
    analysed = 0
    for text in done.stdout.splitlines():
        if match := FINDING.match(text):
            path = Path(match["path"]).resolve().relative_to(folder.resolve()).as_posix()
            row = {"package": package.name, "version": package.version, "path": path}
            rows.append({**row, "line": int(match["line"]), "code": match["code"]})
        elif match := UNREACHED.match(text):
            reasons[match["reason"]] += 1
        elif match := ANALYSED.search(text):
            analysed = int(match["count"])
    return Outcome(package, rows, analysed, reasons)


def table_of(outcomes: list[Outcome]) -> str:
    """How many loops of each package were analysed, and why the others were not."""
    lines = ["| package | analysed | not analysed | why |", "|---|---|---|---|"]
    for each in outcomes:
        why = "; ".join(f"{reason} {count}" for reason, count in each.reasons.most_common())
        name = f"{each.package.name} {each.package.version}"
        lines.append(f"| {name} | {each.analysed} | {sum(each.reasons.values())} | {why} |")
    analysed, missed = sum(e.analysed for e in outcomes), sum(sum(e.reasons.values()) for e in outcomes)
    lines.append(f"| together | {analysed} | {missed} | |")
    return "\n".join(lines)


def compared(known: list[Row], found: list[Row]) -> tuple[list[Row], list[Row]]:
    """(gained, lost) rows; a gained one that was listed as missed keeps its verdict and reason."""
    before = {key_of(row): row for row in known}
    after = {key_of(row): row for row in found}
    listed = {key for key, row in before.items() if row["verdict"] != "missed"}
    gained = [before.get(key, row) for key, row in after.items() if key not in listed]
    lost = [before[key] for key in before if key in listed and key not in after]
    return gained, lost


def updated(known: list[Row], found: list[Row]) -> list[Row]:
    """The rows of the list after --update."""
    before = {key_of(row): row for row in known}
    after = {key_of(row) for row in found}
    rows = []
    for row in found:
        old = before.get(key_of(row), {"verdict": "unread", "reason": ""})
        verdict = "right" if old["verdict"] == "missed" else old["verdict"]
        rows.append({**row, "verdict": verdict, "reason": old["reason"]})
    for key, old in before.items():
        if key not in after and old["verdict"] in ("right", "missed"):
            rows.append({**old, "verdict": "missed"})
    return rows


def written(packages: list[Package], rows: list[Row]) -> str:
    """The list as text: one row a line, so that a change shows as a change of lines."""
    order = {package.name: number for number, package in enumerate(packages)}
    rows = sorted(rows, key=lambda row: (order[row["package"]], row["path"], row["line"], row["code"]))
    parts = [
        '{\n"packages": [\n',
        ",\n".join(json.dumps({"name": p.name, "version": p.version, "ignore": list(p.ignore)}) for p in packages),
        '\n],\n"findings": [\n',
        ",\n".join(json.dumps(row, ensure_ascii=False) for row in rows),
        "\n]\n}\n",
    ]
    return "".join(parts)


def line_of(sign: str, row: Row) -> str:
    place = f"{row['package']} {row['path']}:{row['line']} {row['code']}"
    return f"{sign} {place}  {row.get('verdict', 'new')}: {row.get('reason', '')}".rstrip(": ")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("--cache", type=Path, help="folder for downloaded wheels")
    source.add_argument("--unzipped", type=Path, help="folder with one folder for each package")
    parser.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these packages only")
    parser.add_argument("--update", action="store_true", help="write the list anew")
    parser.add_argument("--loops", action="store_true", help="print which loops were analysed, and why others were not")
    parser.add_argument("--jobs", type=int, default=4, help="packages checked at a time (default 4)")
    options = parser.parse_args()

    held = json.loads(LIST.read_text(encoding="utf-8"))
    packages = [Package(p["name"], p["version"], tuple(p["ignore"])) for p in held["packages"]]
    wanted = {normal(name) for name in options.only}
    if unknown := wanted - {normal(package.name) for package in packages}:
        parser.error(f"not in the list: {', '.join(sorted(unknown))}")
    chosen = [package for package in packages if not wanted or normal(package.name) in wanted]

    def run(package: Package) -> Outcome:
        folder = unzipped(package, options.unzipped) if options.unzipped else downloaded(package, options.cache)
        return outcome(package, folder)

    names = {package.name for package in chosen}
    known = [row for row in held["findings"] if row["package"] in names]
    outcomes: list[Outcome] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for each in pool.map(run, chosen):
            print(f"{each.package.name} {each.package.version}: {len(each.rows)} findings", file=sys.stderr)
            outcomes.append(each)
    found = [row for each in outcomes for row in each.rows]
    if options.loops:
        print(table_of(outcomes))
    gained, lost = compared(known, found)
    for row in gained:
        print(line_of("+", row))
    for row in lost:
        print(line_of("-", row))
    if options.update:
        others = [row for row in held["findings"] if row["package"] not in names]
        LIST.write_text(written(packages, others + updated(known, found)), encoding="utf-8")
    counts = collections.Counter(row["verdict"] for row in known)
    told = ", ".join(f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict])
    print(f"{len(found)} findings, {len(gained)} gained, {len(lost)} lost; the list holds {told or 'none'}")
    return int(bool(gained or lost)) if not options.update else 0


if __name__ == "__main__":
    raise SystemExit(main())
