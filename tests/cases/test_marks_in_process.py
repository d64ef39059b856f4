"""The marks of each case and sample again, without a process between: quick, one file at a time."""

from __future__ import annotations

from pathlib import Path

import pytest
from test_expectations import FILES, OPT_IN, marked

from accumlint.analysis import Options, check_source
from accumlint.rules.registry import default_codes
from accumlint.source.text import SourceText


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_findings_of_a_file_are_those_marked(path: Path) -> None:
    wanted = default_codes() | set(OPT_IN.split(","))
    report = check_source(SourceText.from_path(path), Options(codes=frozenset(wanted)))
    assert not report.problems
    found = {(finding.span.line, finding.code) for finding in report.findings}
    assert found == marked(path, optin=False) | marked(path, optin=True)
