"""Holds the analyser against the truth: findings, loops not reached, repairs that do not equal the full batch."""

from __future__ import annotations

import json
import pathlib
import shlex
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.generated.generate import Program
from tests.generated.judge import differences

Pairs = set[tuple[str, int]]


@dataclass
class Answer:
    """What the analyser said about one program."""

    found: Pairs = field(default_factory=set)
    not_reached: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    repaired: list[tuple[str, str]] = field(default_factory=list)  # (certificate's level, new text)
    unrepaired: list[str] = field(default_factory=list)


def ask_in_process(program: Program, repair: bool = False, confirm: bool = False, strategy: str = "auto") -> Answer:
    """Call the engine directly. Opt-in codes (ACC4xx, ACC9xx) are not compared."""
    from accumlint.analysis import Options, check_source
    from accumlint.source.text import SourceText

    source = SourceText.from_bytes("generated.py", program.source.encode())
    report = check_source(source, Options(repair=repair, confirm=confirm, strategy=strategy))
    answer = Answer()
    answer.problems = [problem.message for problem in report.problems]
    answer.not_reached = [loop.reason for loop in report.loops if loop.status.value != "analysed"]
    fixes: dict[int, Any] = {}
    for finding in report.findings:
        if finding.code < "ACC4":
            answer.found.add((finding.code, finding.span.line))
            if finding.fix is not None and finding.fix.certificate.suggestion:
                answer.unrepaired.append(f"{finding.code}: only shown, as {finding.fix.certificate.suggestion}")
            elif finding.fix is not None:
                fixes[id(finding.fix)] = finding.fix
            elif repair:
                answer.unrepaired.append(f"{finding.code}: {finding.unfixable or 'no reason given'}")
    answer.repaired = [
        (f"{fix.certificate.applicability.value}/{fix.certificate.level}", apply(program.source, fix))
        for fix in fixes.values()
    ]
    return answer


def apply(source: str, fix: Any) -> str:
    """The text with the edits of one fix; spans count code points, lines from 1, columns from 0."""
    starts = [0]
    for line in source.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    for edit in sorted(fix.edits, key=lambda e: e.span, reverse=True):
        begin = starts[edit.span.line - 1] + edit.span.column
        end = starts[edit.span.end_line - 1] + edit.span.end_column
        source = source[:begin] + edit.content + source[end:]
    return source


def ask_command(programs: Iterable[tuple[int, Program]], command: str) -> Iterator[tuple[int, Answer]]:
    """Run a command line once over all programs."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        seeds = []
        for seed, program in programs:
            seeds.append(seed)
            (folder / f"p{seed}.py").write_text(program.source, encoding="utf-8")
        line = [*shlex.split(command), "check", "--isolated", "--output-format", "json", str(folder)]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode not in (0, 1):
            raise SystemExit(f"{shlex.join(line)} exited {done.returncode}\n{done.stderr[-2000:]}")
        answers = {f"p{seed}.py": Answer() for seed in seeds}
        for row in json.loads(done.stdout or "[]"):
            answers[pathlib.Path(row["filename"]).name].found.add((row["code"], row["location"]["row"]))
        for seed in seeds:
            yield seed, answers[f"p{seed}.py"]


@dataclass
class Tally:
    """Counts over many programs, and the table that is printed."""

    programs: int = 0
    exact: int = 0
    wanted: Counter[str] = field(default_factory=Counter)
    missed: Counter[str] = field(default_factory=Counter)
    false: Counter[str] = field(default_factory=Counter)
    silent_right: int = 0
    right: int = 0
    not_reached: Counter[str] = field(default_factory=Counter)
    problems: Counter[str] = field(default_factory=Counter)
    repairs: Counter[str] = field(default_factory=Counter)

    def add(self, truth: Pairs, answer: Answer) -> bool:
        """Count one program; true if the findings are exactly the truth."""
        self.programs += 1
        self.wanted.update(code for code, _ in truth)
        self.missed.update(code for code, _ in truth - answer.found)
        self.false.update(code for code, _ in answer.found - truth)
        self.not_reached.update(answer.not_reached)
        self.problems.update(answer.problems)
        self.right += not truth
        self.silent_right += not truth and not answer.found
        exact = truth == answer.found
        self.exact += exact
        return exact

    def table(self) -> str:
        rows = [f"{'code':8}{'wanted':>8}{'found':>8}{'missed':>8}{'false':>8}"]
        for code in sorted(self.wanted | self.false):
            w, m = self.wanted[code], self.missed[code]
            rows.append(f"{code:8}{w:8}{w - m:8}{m:8}{self.false[code]:8}")
        found = self.wanted.total() - self.missed.total()
        rows.append(
            f"programs {self.programs}; exactly right {self.exact}; "
            f"right programs left alone {self.silent_right}/{self.right}"
            f"; recall {found}/{self.wanted.total()}; precision {found}/{found + self.false.total()}"
        )
        for title, counter in (("not reached", self.not_reached), ("problem", self.problems), ("repair", self.repairs)):
            rows += [f"{title}: {count} x {text}" for text, count in counter.most_common(12)]
        return "\n".join(rows)


def check_repairs(program: Program, answer: Answer, tally: Tally) -> list[str]:
    """Repaired programs must equal the full batch, stay silent and be left alone by a second pass."""
    complaints = []
    for level, text in answer.repaired:
        off = differences(text, program.entry, program.features)
        again = ask_in_process(Program(text, program.entry, program.features), repair=True)
        new = {code for code, _ in again.found} - {code for code, _ in answer.found}
        verdict = "differs" if off else "finds something new" if new else "changes again" if again.repaired else "equal"
        tally.repairs[f"{level}: {verdict}"] += 1
        if verdict != "equal":
            complaints.append(f"repair ({level}) {verdict}: {off[:3] or sorted(new)}\n{text}")
    tally.repairs.update(f"none: {reason}" for reason in answer.unrepaired)
    return complaints
