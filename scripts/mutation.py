"""Change the code at one place at a time and see whether a test notices: mutation testing of what decides.

    python scripts/mutation.py cover [--jobs N]                        which test runs which line (once)
    python scripts/mutation.py run [--sample N] [--seed N] [--jobs N] [PLACE ...]
    python scripts/mutation.py show KEY                                the change of a mutant as a diff

The mutants are drawn by a seed from all places of `semantics`, `contract` and `repair` inside of a function. Each is
run in a copy of the repository against the tests that run its line, the quick ones first, until one fails. A mutant
that no test notices survives; one whose line no test runs is counted among the survivors. `mutation/results.json`
keeps what came out, so that a second run asks only what is open; `--again` asks the survivors once more.
"""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import json
import os
import random
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
KEPT = ROOT / "mutation"
PACKAGES = ("semantics", "contract", "repair")
TESTS = (
    "tests/semantics", "tests/contract", "tests/repair", "tests/cases/test_marks_in_process.py",
    "tests/rules/test_examples_detected.py",
)  # fmt: skip
COPIED = ("accumlint", "tests", "samples", "scripts", "pyproject.toml")
HEAVY = ("pytest", "hypothesis", "libcst", "libcst.matchers", "libcst.metadata", "numpy", "torch", "click", "rich")
MOST_SECONDS = 20.0
"""Processor time of the tests of one mutant: those that run its line are taken, quick ones first, until it is spent."""

COMPARED = {
    ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
COMPUTED = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Add, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.Mod: ast.Mult, ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """One change: the text of a span of a file is replaced. Lines count from 1, columns in bytes of UTF-8."""

    file: str
    line: int
    column: int
    end_line: int
    end_column: int
    kind: str
    text: str

    @property
    def key(self) -> str:
        return f"{self.file}:{self.line}:{self.column}-{self.end_line}:{self.end_column}:{self.kind}"

    def apply(self, text: str) -> str:
        lines = text.encode().splitlines(keepends=True)
        first, last = lines[self.line - 1], lines[self.end_line - 1]
        middle = first[: self.column] + self.text.encode() + last[self.end_column :]
        return b"".join([*lines[: self.line - 1], middle, *lines[self.end_line :]]).decode()


class Places(ast.NodeVisitor):
    """All mutants of a file."""

    def __init__(self, file: str, tree: ast.AST) -> None:
        self.file = file
        self.found: list[Mutant] = []
        self._inside = 0
        self.visit(tree)

    def _add(self, node: Any, kind: str, new: ast.AST | str) -> None:
        if self._inside:
            text = new if isinstance(new, str) else f"({ast.unparse(new)})"
            place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
            self.found.append(Mutant(self.file, *place, kind, text))

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        for default in (*node.args.defaults, *(each for each in node.args.kw_defaults if each)):
            self.visit(default)
        self._inside += 1
        for statement in node.body:
            self.visit(statement)
        self._inside -= 1

    def visit_Compare(self, node: ast.Compare) -> None:
        for at, operator in enumerate(node.ops):
            other = COMPARED[type(operator)]
            kind = f"{type(operator).__name__}->{other.__name__}{f'-{at + 1}' if at else ''}"
            ops = [*node.ops[:at], other(), *node.ops[at + 1 :]]
            self._add(node, kind, ast.Compare(node.left, ops, node.comparators))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        other = COMPUTED.get(type(node.op))
        if other is not None:
            self._add(node, f"{type(node.op).__name__}->{other.__name__}", ast.BinOp(node.left, other(), node.right))
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        other = ast.Or if isinstance(node.op, ast.And) else ast.And
        self._add(node, f"{type(node.op).__name__}->{other.__name__}", ast.BoolOp(other(), node.values))
        if len(node.values) > 2 or isinstance(node.op, ast.And):
            for at in range(len(node.values)):
                rest = [*node.values[:at], *node.values[at + 1 :]]
                new = rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
                self._add(node, f"without-part-{at + 1}", new)
        self.generic_visit(node)

    def visit_UnaryOp(self, node: ast.UnaryOp) -> None:
        if isinstance(node.op, ast.Not):
            self._add(node, "without-not", node.operand)
        elif isinstance(node.op, ast.USub):
            self._add(node, "without-minus", node.operand)
        self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._add(node, "other-constant", repr(not node.value))
        elif isinstance(node.value, int):
            self._add(node, "other-constant", repr(node.value + 1))

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words are no decisions; and what stands in them has no position of its own before Python 3.12."""

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        """The types that `isinstance` asks about are no numbers: `A | B` has no other sign."""
        is_type_test = isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        for part in node.args[:1] if is_type_test else ast.iter_child_nodes(node):
            self.visit(part)

    def visit_If(self, node: ast.If | ast.IfExp) -> None:
        self._add(node.test, "never", "False")
        self._add(node.test, "always", "True")
        self.generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> None:
        self.visit_If(node)

    def visit_While(self, node: ast.While) -> None:
        self._add(node.test, "never", "False")
        self.generic_visit(node)

    def visit_comprehension(self, node: ast.comprehension) -> None:
        for test in node.ifs:
            self._add(test, "unfiltered", "True")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and not (isinstance(node.value, ast.Constant) and node.value.value is None):
            self._add(node.value, "returns-none", "None")
        self.generic_visit(node)

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Call):
            self._add(node, "without-call", "pass")
        if not isinstance(node.value, ast.Constant):  # a docstring
            self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._add(node, "without-assignment", "pass")
        self.generic_visit(node)

    def visit_Break(self, node: ast.Break) -> None:
        self._add(node, "break->continue", "continue")

    def visit_Continue(self, node: ast.Continue) -> None:
        self._add(node, "continue->break", "break")


def mutants(places: tuple[str, ...]) -> list[Mutant]:
    """All mutants of packages, or of modules such as `contract/windows.py`."""
    found: list[Mutant] = []
    for place in places:
        named = ROOT / "accumlint" / place
        for path in [named] if named.suffix else sorted(named.glob("*.py")):
            text = path.read_text(encoding="utf-8")
            found += Places(str(path.relative_to(ROOT)), ast.parse(text)).found
    return found


class Cover:
    """A pytest plugin: for each line of the packages, the tests that run it; for each test, its processor time."""

    def __init__(self) -> None:
        import coverage

        folders = [str(ROOT / "accumlint" / package) for package in PACKAGES]
        self._coverage = coverage.Coverage(data_file=None, config_file=False, source=folders)
        self._seconds: dict[str, float] = {}
        self._coverage.start()

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        self._coverage.switch_context(nodeid)
        self._seconds[nodeid] = time.process_time()

    def pytest_runtest_logfinish(self, nodeid: str) -> None:
        self._seconds[nodeid] = time.process_time() - self._seconds[nodeid]

    def pytest_sessionfinish(self) -> None:
        self._coverage.stop()
        data = self._coverage.get_data()
        lines = {
            str(Path(file).relative_to(ROOT)): {
                line: [test for test in tests if test] for line, tests in data.contexts_by_lineno(file).items()
            }
            for file in data.measured_files()
        }
        worker = os.environ.get("PYTEST_XDIST_WORKER", "all")
        (KEPT / f"cover-{worker}.json").write_text(json.dumps({"seconds": self._seconds, "lines": lines}))


def pytest_configure(config: Any) -> None:
    """For `-p mutation`; with workers, only those run tests."""
    if os.environ.get("PYTEST_XDIST_WORKER") or not config.getoption("numprocesses", None):
        config.pluginmanager.register(Cover(), "cover")


@dataclass
class Covered:
    """What `cover` found."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)

    @classmethod
    def read(cls) -> Covered:
        read = cls()
        for path in KEPT.glob("cover-*.json"):
            content = json.loads(path.read_text())
            read.seconds.update(content["seconds"])
            for file, lines in content["lines"].items():
                for line, tests in lines.items():
                    read.lines.setdefault(file, {}).setdefault(int(line), set()).update(tests)
        if not read.seconds:
            sys.exit("nothing is covered: run `cover` first")
        return read

    def tests(self, mutant: Mutant) -> list[str]:
        """The tests that run a line of the mutant, quick ones first, within the budget; at least one."""
        lines = self.lines.get(mutant.file, {})
        found = {test for line in range(mutant.line, mutant.end_line + 1) for test in lines.get(line, ())}
        chosen, spent = [], 0.0
        for test in sorted(found, key=lambda test: (self.seconds.get(test, 1.0), test)):
            spent += self.seconds.get(test, 1.0)
            if chosen and spent > MOST_SECONDS:
                break
            chosen.append(test)
        return chosen


def copy_of_the_repository(folder: Path) -> Path:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, folder)
    (folder / "scripts" / "mutation.py").unlink(missing_ok=True)
    return folder


def run_tests(copy: Path, tests: list[str]) -> int:
    """In a forked child, where what is heavy is loaded and nothing of accumlint is: pytest's exit code."""
    os.setsid()
    os.chdir(copy)
    resource.setrlimit(resource.RLIMIT_CPU, (int(5 * MOST_SECONDS), int(5 * MOST_SECONDS) + 5))
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    sink = os.open(os.devnull, os.O_RDWR)
    for handle in (0, 1, 2):
        os.dup2(sink, handle)
    sys.dont_write_bytecode = True
    os.environ.update(PYTHONPATH=str(copy), PYTHONDONTWRITEBYTECODE="1")
    sys.path[:] = [str(copy), *(each for each in sys.path if each not in (str(ROOT), str(ROOT / "scripts")))]
    importlib.invalidate_caches()
    import pytest

    options = ["-x", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "-o", "addopts=", "--no-header"]
    return int(pytest.main([*options, *tests]))


class Run:
    """Mutants in parallel, each in a child of its own and a copy of the repository that is free."""

    def __init__(self, covered: Covered, folder: Path, jobs: int) -> None:
        self._covered = covered
        self._free = [copy_of_the_repository(folder / str(number)) for number in range(jobs)]
        self._busy: dict[int, tuple[Mutant, Path, str, float]] = {}

    def results(self, asked: list[Mutant]) -> Iterator[tuple[Mutant, str]]:
        """Each mutant with what came of it: killed, killed by time, survived, not covered, or broken."""
        for mutant in asked:
            tests = self._covered.tests(mutant)
            if not tests:
                yield mutant, "not covered"
                continue
            while not self._free:
                yield self._next()
            self._start(mutant, tests)
        while self._busy:
            yield self._next()

    def _start(self, mutant: Mutant, tests: list[str]) -> None:
        copy = self._free.pop()
        path = copy / mutant.file
        original = path.read_text(encoding="utf-8")
        path.write_text(mutant.apply(original), encoding="utf-8")
        child = os.fork()
        if child == 0:
            code = 70
            try:
                code = run_tests(copy, tests)
            except BaseException:
                code = 71
            finally:
                os._exit(code)
        self._busy[child] = (mutant, copy, original, time.monotonic())

    def _next(self) -> tuple[Mutant, str]:
        child, status = os.wait()
        mutant, copy, original, _ = self._busy.pop(child)
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)  # what its tests may have started
        (copy / mutant.file).write_text(original, encoding="utf-8")
        self._free.append(copy)
        if os.WIFSIGNALED(status):
            return mutant, "killed by time"
        code = os.WEXITSTATUS(status)
        # A mutant that cannot even be imported or collected (2, 3, 4) is seen by every test.
        return mutant, {0: "survived", 1: "killed", 2: "killed", 3: "killed", 4: "killed"}.get(code, f"broken ({code})")


def sampled(places: tuple[str, ...], sample: int, seed: int) -> list[Mutant]:
    """The sample: the same for the same code and seed, and each package by its share of all places."""
    every = mutants(places)
    return random.Random(seed).sample(every, min(sample, len(every)))


def table(results: dict[str, str]) -> str:
    lines = ["| package | mutants | killed | survived | not covered | score |", "| --- | --- | --- | --- | --- | --- |"]
    for package in (*PACKAGES, ""):
        counts = Counter(what for key, what in results.items() if key.startswith(f"accumlint/{package}"))
        killed = counts["killed"] + counts["killed by time"]
        total = sum(counts.values())
        if total:
            score = f"{100 * killed / total:.0f} %"
            cells = [package or "all", total, killed, counts["survived"], counts["not covered"], score]
            lines.append("| " + " | ".join(map(str, cells)) + " |")
    return "\n".join(lines)


def run(arguments: argparse.Namespace) -> int:
    covered = Covered.read()
    for name in HEAVY:
        with suppress(ImportError):
            importlib.import_module(name)
    asked = sampled(tuple(arguments.places) or PACKAGES, arguments.sample, arguments.seed)
    kept = KEPT / "results.json"
    known: dict[str, str] = json.loads(kept.read_text()) if kept.exists() else {}
    if arguments.again:
        known = {key: what for key, what in known.items() if what.startswith("killed")}
    pending = [mutant for mutant in asked if mutant.key not in known]
    with tempfile.TemporaryDirectory() as folder:
        for mutant, what in Run(covered, Path(folder), arguments.jobs).results(pending):
            known[mutant.key] = what
            kept.write_text(json.dumps(known, indent=1))
            if not what.startswith("killed"):
                print(f"{what}: {mutant.key} {mutant.text[:80]!r}", flush=True)
    print(table({mutant.key: known[mutant.key] for mutant in asked}))
    return 0


def show(key: str) -> int:
    for mutant in mutants(PACKAGES):
        if mutant.key == key:
            text = (ROOT / mutant.file).read_text(encoding="utf-8")
            sides = text.splitlines(keepends=True), mutant.apply(text).splitlines(keepends=True)
            sys.stdout.writelines(difflib.unified_diff(*sides, mutant.file, mutant.file))
            return 0
    return 1


def cover(jobs: int) -> int:
    KEPT.mkdir(exist_ok=True)
    for path in KEPT.glob("cover-*.json"):
        path.unlink()
    import subprocess

    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "scripts")])}
    command = [sys.executable, "-m", "pytest", "-p", "mutation", "-n", str(jobs), "-p", "no:cacheprovider", *TESTS]
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    covering = commands.add_parser("cover")
    covering.add_argument("--jobs", type=int, default=2)
    running = commands.add_parser("run")
    running.add_argument("places", nargs="*", metavar="PACKAGE|MODULE")
    running.add_argument("--sample", type=int, default=300)
    running.add_argument("--seed", type=int, default=0)
    running.add_argument("--jobs", type=int, default=2)
    running.add_argument("--again", action="store_true", help="ask again about what was not killed")
    showing = commands.add_parser("show")
    showing.add_argument("key")
    arguments = parser.parse_args()
    if arguments.command == "cover":
        return cover(arguments.jobs)
    return show(arguments.key) if arguments.command == "show" else run(arguments)


if __name__ == "__main__":
    sys.exit(main())
