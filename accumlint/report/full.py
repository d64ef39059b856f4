"""The full text of a finding, as ruff's and rustc's users expect it: source, numbers, evidence, help, certificate."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accumlint.findings import Finding, Fix
from accumlint.reading.program import Span
from accumlint.repair.certificate import Applicability, Certificate, Check, Measure
from accumlint.report.changes import changes
from accumlint.report.headline import headline
from accumlint.report.model import CheckedFile, Run
from accumlint.report.styled import Line, Piece, line, plain, width

BEFORE = 2  # lines of context above the finding
LONGEST = 4  # lines of a finding that are shown; the rest is cut
HEADER = re.compile(r"(\s*(?:if|elif|for|while|with|def|class|async|try)\b.*:)\s*(?:#.*)?$")


def render(run: Run) -> str:
    return plain(lines(run))


def lines(run: Run) -> Iterator[Line]:
    explained: set[int] = set()  # repairs whose certificate has been printed
    for file, finding in run.findings():
        yield headline(file, finding)
        yield from _source(file, finding)
        yield from _notes(file, finding, explained)
        yield line()


def _source(file: CheckedFile, finding: Finding) -> Iterator[Line]:
    span = underlined(file, finding.span)
    last = min(span.end_line, span.line + LONGEST - 1)
    first = max(span.line - BEFORE, 1)
    cell = file.place(span.line).cell
    while first < span.line and (file.place(first).cell != cell or not file.line(first).strip()):
        first += 1
    shown = range(first, last + 1)
    gutter = max(len(str(file.place(number).row)) for number in shown)
    blank = Piece(f"{'':{gutter}} | ", "gutter")
    yield line(Piece(blank.text.rstrip(), "gutter"))
    for number in shown:
        text = file.line(number)
        yield line(Piece(f"{file.place(number).row:{gutter}} | ", "gutter"), text.expandtabs(4))
        if number >= span.line:
            begin = span.column if number == span.line else len(text) - len(text.lstrip())
            end = span.end_column if number == span.end_line else len(text)
            before = width(text[:begin].expandtabs(4))
            length = max(width(text[:end].expandtabs(4)) - before, 1)
            yield line(blank, " " * before, Piece("^" * length, "mark"))
    if last < span.end_line:
        yield line(blank, Piece("...", "mark"))


def underlined(file: CheckedFile, span: Span) -> Span:
    """Of a finding on an `if` or a `def` only the first line is underlined, up to its colon."""
    header = HEADER.match(file.line(span.line)) if span.end_line > span.line else None
    return Span(span.line, span.column, span.line, header.end(1)) if header else span


def _notes(file: CheckedFile, finding: Finding, explained: set[int]) -> Iterator[Line]:
    for reason, span in finding.evidence:
        place = "" if span is None else f" ({_line_of(file, span.line)})"
        yield _note("", f"counts differ because: {reason}{place}")
    if finding.level != "proved":
        yield _note("", f"level: {finding.level}")
    for assumption in finding.assumptions:
        yield _note("", f"assumes: {assumption}")
    if finding.hint:
        yield _note("help", finding.hint)
    if finding.fix is None:
        if finding.unfixable:
            yield _note("repair", f"none: {finding.unfixable}")
    elif id(finding.fix) in explained:
        yield _note("repair", "the same one as above; it is applied once")
    else:
        explained.add(id(finding.fix))
        yield from _repair(file, finding, finding.fix)


def _repair(file: CheckedFile, finding: Finding, fix: Fix) -> Iterator[Line]:
    certificate = fix.certificate
    applicability = file.applicability(finding) or Applicability.DISPLAY
    style = "safe" if applicability is Applicability.SAFE else "unsafe"
    word = {Applicability.SAFE: "safe", Applicability.UNSAFE: "unsafe", Applicability.DISPLAY: "display only"}
    established = established_checks(certificate)
    yield line(
        Piece("   = ", "gutter"), Piece("repair", "help"), ": ", Piece(word[applicability], style),
        f" ({established}): {fix.message}" if established else f": {fix.message}",
    )  # fmt: skip
    for text in details(certificate):
        yield line(Piece("     ", "gutter"), text)
    yield from changes(file, fix)


def established_checks(certificate: Certificate) -> str:
    """`proved, executed, leaf-checked`, in the order in which they are made."""
    order = ("proved", "executed", "executed on ranks", "leaf-checked", "declared", "end-to-end")
    return ", ".join(sorted((check.value for check in certificate.discharged), key=order.index))


def details(certificate: Certificate) -> Iterator[str]:
    """The lines below the level: what was proved, figures, assumptions, what is missing, what disagrees."""
    if Check.PROVED in certificate.discharged:
        yield "proved: interpreted again, the repaired loop meets the contract: one full-batch update a window"
    for measure in certificate.measures:
        yield _measure(measure)
    for assumption in certificate.assumptions:
        yield f"assumes: {assumption}"
    for missing in certificate.missing:
        yield f"missing for safe: {missing}"
    if certificate.suggestion:
        yield f"only shown: {certificate.suggestion}"
    if certificate.disagreement:
        yield f"engines disagree: {certificate.disagreement}"
    yield from certificate.notes


def _measure(measure: Measure) -> str:
    before = "" if measure.original_error is None else f"; the unrepaired loop is off by {measure.original_error:.2g}"
    engine = f" [{measure.engine}]" if measure.engine else ""
    return f"{measure.check.value}: gradient error {measure.error:.2g} (limit {measure.limit:.2g}){before}{engine}"


def _note(word: str, text: str) -> Line:
    return line(Piece("   = ", "gutter"), *((Piece(word, "help"), ": ") if word else ()), text)


def _line_of(file: CheckedFile, number: int) -> str:
    place = file.place(number)
    return f"line {place.row}" if place.cell is None else f"cell {place.cell}, line {place.row}"
