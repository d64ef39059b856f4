"""JUnit's XML: one suite a file with findings or problems."""

from __future__ import annotations

from xml.sax.saxutils import escape, quoteattr

from accumlint.findings import Finding
from accumlint.picture.text import printable
from accumlint.report.headline import where
from accumlint.report.model import CheckedFile, Run


def render(run: Run) -> str:
    problems = sum(1 for _ in run.all_problems())
    suites = [_suite(file) for file in run.files if file.findings]
    if problems:
        suites.append(_errors(run))
    if not suites:
        case = _block("testcase", {"name": f"No findings in {len(run.files)} files", "classname": "accumlint"}, [])
        suites = [_block("testsuite", {"name": "accumlint", "tests": "1", "failures": "0", "errors": "0"}, [case])]
    tests = str(run.count() + problems or 1)
    counts = {"name": "accumlint", "tests": tests, "failures": str(run.count()), "errors": str(problems)}
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + _block("testsuites", counts, suites) + "\n"


def _suite(file: CheckedFile) -> str:
    count = str(len(file.findings))
    attributes = {"name": file.filename, "package": "accumlint", "tests": count, "failures": count, "errors": "0"}
    return _block("testsuite", attributes, [_case(file, finding) for finding in file.findings])


def _case(file: CheckedFile, finding: Finding) -> str:
    place = file.place(finding.span.line, finding.span.column)
    attributes = {"name": f"accumlint.{finding.code}", "classname": file.filename.removesuffix(".py")}
    attributes |= {"line": str(place.row), "column": str(place.column)}
    text = f"{where(file.filename, place)}: {finding.message}"
    return _block("testcase", attributes, [_block("failure", {"message": finding.message}, [_text(text)])])


def _errors(run: Run) -> str:
    cases = [
        _block(
            "testcase",
            {"name": "accumlint.error", "classname": problem.filename, "line": str(problem.line)},
            [_block("error", {"message": problem.message}, [])],
        )
        for problem in run.all_problems()
    ]
    count = str(len(cases))
    return _block("testsuite", {"name": "accumlint", "tests": count, "failures": "0", "errors": count}, cases)


def _block(tag: str, attributes: dict[str, str], children: list[str]) -> str:
    shown = "".join(f" {name}={quoteattr(_clean(value))}" for name, value in attributes.items())
    if not children:
        return f"<{tag}{shown}/>"
    return f"<{tag}{shown}>" + "".join(children) + f"</{tag}>"


def _text(text: str) -> str:
    return escape(_clean(text))


def _clean(text: str) -> str:
    """XML forbids most control characters, escaped or not, and lone surrogates."""
    return printable(text).encode("utf-8", "backslashreplace").decode("utf-8")
