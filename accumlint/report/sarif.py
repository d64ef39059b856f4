"""SARIF 2.1.0, with rules, repairs and fingerprints: GitHub code scanning and editors read it."""

from __future__ import annotations

import json
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import quote

from accumlint import __version__
from accumlint.findings import Finding, Problem
from accumlint.reading.program import Span
from accumlint.report.fingerprint import fingerprints, posix
from accumlint.report.json import certificate
from accumlint.report.model import DOCUMENTATION, CheckedFile, Run, rule_url
from accumlint.rules import registry
from accumlint.rules.page import page

SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(run: Run) -> str:
    codes = sorted({finding.code for _, finding in run.findings()})
    problems = list(run.all_problems())
    driver = {
        "name": "accumlint",
        "version": __version__,
        "semanticVersion": __version__,
        "informationUri": DOCUMENTATION,
        "rules": [_rule(code) for code in codes],
    }
    single = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [
            {
                "executionSuccessful": not problems,
                "toolExecutionNotifications": [_notification(problem) for problem in problems],
            }
        ],
        "results": [_result(*found, codes) for found in fingerprints(run)],
    }
    return json.dumps({"$schema": SCHEMA, "version": "2.1.0", "runs": [single]}, indent=2) + "\n"


def _rule(code: str) -> dict[str, Any]:
    rule = registry.get_rule(code)
    text = page(rule)
    return {
        "id": code,
        "name": rule.name,
        "shortDescription": {"text": rule.summary},
        "fullDescription": {"text": (rule.__doc__ or rule.summary).strip().splitlines()[0]},
        "help": {"text": text, "markdown": text},
        "helpUri": rule_url(code),
        "defaultConfiguration": {"level": "warning" if rule.opt_in else "error", "enabled": rule.state == "on"},
        "properties": {"tags": ["correctness", "gradient-accumulation", "pytorch"], "precision": "high"},
    }


def _result(file: CheckedFile, finding: Finding, fingerprint: str, codes: list[str]) -> dict[str, Any]:
    rule = registry.get_rule(finding.code)
    properties: dict[str, Any] = {"level": finding.level, "numbers": dict(finding.numbers)}
    place = file.place(finding.span.line)
    if place.cell is not None:
        properties["cell"] = place.cell
    result: dict[str, Any] = {
        "ruleId": finding.code,
        "ruleIndex": codes.index(finding.code),
        "level": "warning" if rule.opt_in else "error",
        "message": {"text": finding.message},
        "locations": [{"physicalLocation": _location(file, finding.span)}],
        "partialFingerprints": {"accumlint/v1": fingerprint},
        "properties": properties,
    }
    related = [(reason, span) for reason, span in finding.evidence if span is not None]
    if related:
        result["relatedLocations"] = [
            {"id": number, "message": {"text": reason}, "physicalLocation": _location(file, span)}
            for number, (reason, span) in enumerate(related)
        ]
    if finding.fix is not None:
        properties["certificate"] = certificate(finding.fix.certificate)
        if not file.is_notebook:
            result["fixes"] = [_fix(file, finding)]
    return result


def _fix(file: CheckedFile, finding: Finding) -> dict[str, Any]:
    assert finding.fix is not None
    replacements = [
        {"deletedRegion": _region(file, edit.span), "insertedContent": {"text": edit.content}}
        for edit in finding.fix.edits
    ]
    change = {"artifactLocation": artifact(file.filename), "replacements": replacements}
    applicability = file.applicability(finding)
    label = applicability.value if applicability else "display"
    return {"description": {"text": f"{finding.fix.message} ({label})"}, "artifactChanges": [change]}


def _location(file: CheckedFile, span: Span) -> dict[str, Any]:
    return {"artifactLocation": artifact(file.filename), "region": _region(file, span)}


def _region(file: CheckedFile, span: Span) -> dict[str, int]:
    start, end = file.place(span.line, span.column), file.end(span)
    return {"startLine": start.row, "startColumn": start.column, "endLine": end.row, "endColumn": end.column}


def artifact(filename: str) -> dict[str, str]:
    """A file by its URI: relative to the root of the checkout where the path is relative."""
    path = posix(filename)
    if PurePosixPath(path).is_absolute() or path[1:2] == ":":
        return {"uri": "file://" + quote(path if path.startswith("/") else "/" + path)}
    return {"uri": quote(path, safe="/"), "uriBaseId": "%SRCROOT%"}


def _notification(problem: Problem) -> dict[str, Any]:
    notification: dict[str, Any] = {"level": "error", "message": {"text": problem.message}}
    if problem.filename:
        location: dict[str, Any] = {"artifactLocation": artifact(problem.filename)}
        if problem.line:
            location["region"] = {"startLine": problem.line, "startColumn": problem.column + 1}
        notification["locations"] = [{"physicalLocation": location}]
    return notification
