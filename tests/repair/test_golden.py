"""The repair of each dev case is what was reviewed; a wanted change is written by `golden_repairs.py`."""

from __future__ import annotations

from pathlib import Path

import pytest
from golden_repairs import CASES, FOLDER, golden_files


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_each_case_is_repaired_as_reviewed(case: Path) -> None:
    wanted = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob(f"{case.stem}.*")}
    assert golden_files(case) == wanted


def test_nothing_is_reviewed_that_is_no_case() -> None:
    assert {path.name.partition(".")[0] for path in FOLDER.glob("*.diff")} == {path.stem for path in CASES}
