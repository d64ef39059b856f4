"""The baseline knows findings by content."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumlint.source.baseline import Baseline, Place, fingerprints
from accumlint.source.text import SourceError

LINES = ["for batch in loader:", "    loss = f(batch) / 4", "", "    loss.backward()", "    optimizer.step()", "done()"]


def place(lines: list[str], text: str = "    loss.backward()", code: str = "ACC101", path: str = "a.py") -> Place:
    return Place(path, code, lines.index(text) + 1, lines)


def test_a_finding_is_known_wherever_its_line_went() -> None:
    baseline = Baseline.of([place(LINES)])
    assert baseline.filter([place(LINES)]) == [True]
    assert baseline.filter([place(["import torch", "", *LINES, "more()"])]) == [True]
    assert baseline.filter([place(["  " + line for line in LINES], "      loss.backward()")]) == [True]
    assert baseline.filter([place([line for line in LINES if line])]) == [True]


def test_an_edit_on_one_side_leaves_it_known_and_on_both_does_not() -> None:
    baseline = Baseline.of([place(LINES)])
    before = [line.replace("/ 4", "/ 8") for line in LINES]
    assert baseline.filter([place(before)]) == [True]
    after = [line.replace("optimizer", "opt") for line in LINES]
    assert baseline.filter([place(after)]) == [True]
    both = [line.replace("optimizer", "opt") for line in before]
    assert baseline.filter([place(both)]) == [False]


def test_another_code_file_or_line_is_new() -> None:
    baseline = Baseline.of([place(LINES)])
    assert baseline.filter([place(LINES, code="ACC102")]) == [False]
    assert baseline.filter([place(LINES, path="b.py")]) == [False]
    changed = [line.replace("backward()", "backward(x)") for line in LINES]
    assert baseline.filter([place(changed, "    loss.backward(x)")]) == [False]
    assert baseline.filter([place(LINES, path="./a.py")]) == [True]


def test_an_entry_answers_for_one_finding_only() -> None:
    twice = [*LINES, *LINES]
    places = [Place("a.py", "ACC101", 4, twice), Place("a.py", "ACC101", 10, twice)]
    assert Baseline.of(places[:1]).filter(places) == [True, False]
    assert Baseline.of(places).filter(places) == [True, True]
    assert len(set(fingerprints(places))) == 2


def test_an_exact_match_goes_before_a_likely_one() -> None:
    changed = [line.replace("/ 4", "/ 8") for line in LINES]
    baseline = Baseline.of([place(LINES)])
    assert baseline.filter([place(changed), place(LINES)]) == [False, True]


def test_stale_entries_are_told() -> None:
    baseline = Baseline.of([place(LINES), place(LINES, "done()")])
    assert [key.source for key in baseline.stale([place(LINES)])] == ["done()"]
    assert baseline.stale([place(LINES), place(LINES, "done()")]) == []


def test_fingerprints_survive_edits_elsewhere_and_differ_by_content() -> None:
    (first,) = fingerprints([place(LINES)])
    assert fingerprints([place(["", "x = 1", *LINES])]) == [first]
    assert fingerprints([place(LINES, code="ACC102")]) != [first]
    assert len(first) == 32


def test_places_outside_the_file_are_no_error() -> None:
    baseline = Baseline.of([Place("a.py", "ACC101", 0, []), Place("a.py", "ACC101", 9, ["x"])])
    assert baseline.filter([Place("a.py", "ACC101", 0, [])]) == [True]


@given(st.lists(st.text(max_size=300), max_size=8), st.lists(st.integers(1, 8), max_size=6))
def test_a_baseline_read_back_knows_what_was_written(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], numbers: list[int]
) -> None:
    path = tmp_path_factory.mktemp("baseline") / "baseline.json"
    places = [Place("src\\a.py", "ACC101", number, lines) for number in numbers]
    assert Baseline.of(places).write(path) is True
    again = Baseline.read(path)
    assert again.filter(places) == [True] * len(places)
    assert again.stale(places) == []
    assert again.write(path) is False
    assert json.loads(path.read_bytes())["version"] == 1


def test_the_file_does_not_depend_on_the_order_of_findings(tmp_path: Path) -> None:
    places = [place(LINES), place(LINES, "done()"), place(LINES, code="ACC201")]
    Baseline.of(places).write(tmp_path / "a.json")
    Baseline.of(places[::-1]).write(tmp_path / "b.json")
    assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()
    assert "loss.backward()" in (tmp_path / "a.json").read_text()


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'{"version": 2, "findings": []}', "version 2; this release reads versions up to 1"),
        (b'{"findings": []}', "no version"),
        (b'{"version": "1"}', "no version"),
        (b'{"version": 1}', "no list of findings"),
        (b'{"version": 1, "findings": [{"path": "a.py"}]}', "finding 1 of the baseline lacks a field"),
        (b'{"version": 1, "findings": [3]}', "lacks a field"),
        (b"[]", "not an object"),
        (b"{", "not JSON"),
        (b"\xff\xfe\xff", "not JSON"),
        (b"[" * 100_000, "not JSON"),
    ],
)
def test_what_is_no_baseline_is_refused_in_one_line(tmp_path: Path, content: bytes, words: str) -> None:
    path = tmp_path / "baseline.json"
    path.write_bytes(content)
    with pytest.raises(SourceError, match=words) as caught:
        Baseline.read(path)
    assert "\n" not in caught.value.message


def test_a_missing_baseline_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        Baseline.read(tmp_path / "gone.json")
