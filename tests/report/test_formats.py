"""The machine formats, each held against its own definition."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import jsonschema
import pytest

from accumlint.findings import Edit, Finding, Fix, Problem
from accumlint.reading.program import Span
from accumlint.repair.certificate import Certificate, Check, Measure
from accumlint.report.formats import FORMATS, load
from accumlint.report.model import CheckedFile, Run
from accumlint.source.text import SourceText

# The official schema as Microsoft's npm package @microsoft/jest-sarif 1.0.0-beta.0 (MIT) has it, without white space.
SARIF = json.loads(Path(__file__).with_name("sarif-2.1.0-rtm.5.json").read_text())
TEXT = 'é = 1\n\tloss.backward(é)  # <&"\nx\nx\n'
CERTIFICATE = Certificate(
    frozenset({Check.PROVED, Check.EXECUTED}),
    assumptions=("K is positive",),
    missing=("the leaf was not checked",),
    measures=(Measure(Check.EXECUTED, 1e-16, 1e-12, 0.5, ((2, 5),), 3, "torch"),),
)
FIX = Fix("Weight", (Edit(Span(2, 15, 2, 16), "n"), Edit(Span(3, 0, 3, 0), "y\n")), CERTIFICATE)


def finding(line: int, fix: Fix | None = None, code: str = "ACC101") -> Finding:
    return Finding(
        code, "equal-target-weight", "weighs 50%, <2.5x> & \"more\"", "odd name, 1%.py", Span(line, 1, line, 17),
        evidence=(("ignore_index", Span(1, 0, 1, 1)), ("a mask", None)), fix=fix, numbers={"ratio": "2.5"},
    )  # fmt: skip


@pytest.fixture
def run() -> Run:
    source = SourceText.from_bytes("odd name, 1%.py", TEXT.encode())
    file = CheckedFile("odd name, 1%.py", source, findings=[finding(2, FIX), finding(3), finding(4, code="ACC201")])
    broken = CheckedFile("sub/b.py", problems=[Problem("sub/b.py", "not\x00 Python", 3, 1)])
    return Run([file, broken, CheckedFile("c.py", SourceText.from_bytes("c.py", b""))])


def test_every_format_renders_findings_and_nothing(run: Run) -> None:
    for name in FORMATS:
        assert load(name)(run).endswith("\n")
        assert isinstance(load(name)(Run()), str)


def test_json(run: Run) -> None:
    first, second, _ = json.loads(load("json")(run))
    assert {key: first[key] for key in ("code", "filename", "location", "end_location", "noqa_row", "cell")} == {
        "code": "ACC101",
        "filename": "odd name, 1%.py",
        "location": {"row": 2, "column": 2},
        "end_location": {"row": 2, "column": 18},
        "noqa_row": 2,
        "cell": None,
    }
    assert first["fix"]["applicability"] == "unsafe"
    assert first["fix"]["edits"][1] == {
        "content": "y\n", "location": {"row": 3, "column": 1}, "end_location": {"row": 3, "column": 1},
    }  # fmt: skip
    certificate = first["certificate"]
    assert certificate["discharged"] == ["executed", "proved"]
    assert certificate["level"] == "executed"
    assert certificate["missing"] == ["the leaf was not checked"]
    assert certificate["measures"][0]["counts"] == [[2, 5]]
    assert first["evidence"][0] == {"reason": "ignore_index", "cell": None, "location": {"row": 1, "column": 1}}
    assert first["numbers"] == {"ratio": "2.5"}
    assert first["url"].endswith("/rules/ACC101/")
    assert (second["fix"], second["certificate"]) == (None, None)


def test_json_lines_are_the_elements_of_json(run: Run) -> None:
    assert [json.loads(line) for line in load("json-lines")(run).splitlines()] == json.loads(load("json")(run))
    assert load("json-lines")(Run()) == ""


def test_sarif_is_valid_and_complete(run: Run) -> None:
    log = json.loads(load("sarif")(run))
    jsonschema.Draft4Validator(SARIF).validate(log)
    jsonschema.Draft4Validator(SARIF).validate(json.loads(load("sarif")(Run())))
    (single,) = log["runs"]
    rules = single["tool"]["driver"]["rules"]
    assert [rule["id"] for rule in rules] == ["ACC101", "ACC201"]
    assert all(rules[result["ruleIndex"]]["id"] == result["ruleId"] for result in single["results"])
    first = single["results"][0]
    location = first["locations"][0]["physicalLocation"]
    assert location["artifactLocation"] == {"uri": "odd%20name%2C%201%25.py", "uriBaseId": "%SRCROOT%"}
    assert location["region"] == {"startLine": 2, "startColumn": 2, "endLine": 2, "endColumn": 18}
    assert first["fixes"][0]["artifactChanges"][0]["replacements"][0]["insertedContent"] == {"text": "n"}
    assert single["invocations"][0]["executionSuccessful"] is False


def test_fingerprints_do_not_move_with_the_lines(run: Run) -> None:
    def prints(of: Run) -> list[str]:
        results = json.loads(load("sarif")(of))["runs"][0]["results"]
        return [result["partialFingerprints"]["accumlint/v1"] for result in results]

    before = prints(run)
    assert len(set(before)) == 3
    source = SourceText.from_bytes("odd name, 1%.py", ("import os\n\n" + TEXT).encode())
    moved = [finding(4), finding(5), finding(6, code="ACC201")]
    assert prints(Run([CheckedFile("odd name, 1%.py", source, findings=moved)])) == before
    assert [issue["fingerprint"] for issue in json.loads(load("gitlab")(run))] == before


def test_github(run: Run) -> None:
    lines = load("github")(run).splitlines()
    assert lines[0] == (
        "::error title=accumlint (ACC101),file=odd name%2C 1%25.py,line=2,col=2,endColumn=18,endLine=2"
        '::odd name, 1%25.py:2:2: ACC101 weighs 50%25, <2.5x> & "more"'
    )
    assert lines[3].startswith("::error title=accumlint,file=sub/b.py,line=3::")


def test_gitlab(run: Run) -> None:
    issues = json.loads(load("gitlab")(run))
    assert issues[0]["location"]["positions"]["begin"] == {"line": 2, "column": 2}
    assert {issue["severity"] for issue in issues} == {"major"}


def test_junit(run: Run) -> None:
    root = ElementTree.fromstring(load("junit")(run))
    assert root.attrib == {"name": "accumlint", "tests": "4", "failures": "3", "errors": "1"}
    assert root[0][0].attrib["name"] == "accumlint.ACC101"
    assert root[0][0][0].attrib["message"] == 'weighs 50%, <2.5x> & "more"'
    clean = ElementTree.fromstring(load("junit")(Run()))
    assert clean.attrib["failures"] == "0"


def test_rdjson_counts_bytes(run: Run) -> None:
    first = json.loads(load("rdjson")(run))["diagnostics"][0]
    assert first["location"]["range"]["start"] == {"line": 2, "column": 2}
    assert first["location"]["range"]["end"] == {"line": 2, "column": 19}
    assert first["suggestions"][0]["text"] == "n"


def test_of_a_compound_statement_only_the_header_is_underlined() -> None:
    text = "for x in y:\n    if x:  # c\n        z()\n"
    found = Finding("ACC304", "n", "m", "a.py", Span(2, 4, 3, 11))
    file = CheckedFile("a.py", SourceText.from_bytes("a.py", text.encode()), findings=[found])
    assert load("full")(Run([file])).splitlines()[2:] == [
        "1 | for x in y:",
        "2 |     if x:  # c",
        "  |     ^^^^^",
        "",
    ]
