"""The repair of each dev case is what was reviewed; a wanted change is written by `golden_repairs.py`."""

from __future__ import annotations

from golden_repairs import CASES, FOLDER, all_golden


def test_each_case_is_repaired_as_reviewed() -> None:
    wanted = {path.name: path.read_text(encoding="utf-8") for path in FOLDER.glob("*.diff")}
    found = all_golden()
    assert len(found) >= len(CASES)
    assert found.keys() == wanted.keys()
    changed = [name for name, text in found.items() if text != wanted[name]]
    assert not changed, found[changed[0]]
