"""The registry is filled by the folder, and its pages are the docs."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from accumlint.contract.verdict import Clause
from accumlint.rules.base import Rule, example
from accumlint.rules.page import SECTIONS, index, listing, page, sections
from accumlint.rules.registry import UnknownCodeError, all_rules, collect, default_codes, get_rule, select, suggestion

ROOT = Path(__file__).resolve().parents[2]
OPT_IN = {"ACC401", "ACC402", "ACC403", "ACC404", "ACC901"}
DEFAULT = {
    *(f"ACC10{n}" for n in range(1, 9)),
    "ACC201",
    "ACC202",
    *(f"ACC30{n}" for n in range(1, 9)),
}


def test_all_codes_are_there_in_order() -> None:
    codes = [rule.code for rule in all_rules()]
    assert codes == sorted(DEFAULT | OPT_IN)
    assert default_codes() == DEFAULT


def test_each_clause_has_exactly_one_rule() -> None:
    clauses = [rule.clause for rule in all_rules() if rule.clause is not None]
    assert sorted(clause.name for clause in clauses) == sorted(clause.name for clause in Clause)
    assert [rule.code for rule in all_rules() if rule.clause is None] == ["ACC901"]


def test_file_names_say_code_and_name() -> None:
    for rule in all_rules():
        module = f"{rule.code.lower()}_{rule.name.replace('-', '_')}"
        assert type(rule).__module__ == f"accumlint.rules.{module}"


def test_duplicates_and_strange_codes_are_refused() -> None:
    class Copy(Rule):
        code = "ACC101"
        name = "copy"

    class SameName(Rule):
        code = "ACC999"
        name = "equal-target-weight"

    class Strange(Rule):
        code = "XYZ1"
        name = "strange"

    with pytest.raises(ValueError, match="ACC101 is defined by EqualTargetWeight and Copy"):
        collect([*all_rules(), Copy()])
    with pytest.raises(ValueError, match="same name 'equal-target-weight'"):
        collect([*all_rules(), SameName()])
    with pytest.raises(ValueError, match="not ACC and three digits"):
        collect([Strange()])


def test_a_rule_is_found_by_code_and_name_and_the_nearest_is_suggested() -> None:
    assert get_rule("acc201").name == "clip-per-microbatch"
    assert get_rule("clip-per-microbatch").code == "ACC201"
    with pytest.raises(UnknownCodeError, match="did you mean ACC108"):
        get_rule("ACC1O8")
    with pytest.raises(UnknownCodeError, match="did you mean clip-per-microbatch"):
        get_rule("clip-per-microbach")
    assert suggestion("completely different") == ""


def test_selection_by_prefix() -> None:
    assert select(["ACC1"]) == {f"ACC10{n}" for n in range(1, 9)}
    assert select(["acc20", "ACC901"]) == {"ACC201", "ACC202", "ACC901"}
    assert select(["ACC"]) == select(["ALL"]) == DEFAULT | OPT_IN
    assert select(["logged-loss-scale"]) == {"ACC403"}
    assert select([]) == frozenset()
    with pytest.raises(UnknownCodeError):
        select(["ACC7"])
    with pytest.raises(UnknownCodeError):
        select([""])


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_every_page_is_whole(rule: Rule) -> None:
    text = sections(rule)
    assert tuple(text) == ("", *SECTIONS)
    assert text[""].count("\n") == 0
    assert all(text.values())
    assert "sum_k n_k" in text["Why it is bad"] or "theta" in text["Why it is bad"] or "n_rk" in text["Why it is bad"]
    assert any(digit in text["Why it is bad"] for digit in "0123456789")
    assert "- " in text["References"]
    assert rule.repair_safety.endswith(".")
    assert "." not in rule.summary[-1:]
    assert "\n" not in rule.summary
    assert "|" not in rule.summary  # it stands in a table


@pytest.mark.parametrize("rule", all_rules(), ids=lambda rule: rule.code)
def test_at_least_three_examples_of_each_kind(rule: Rule) -> None:
    assert len(rule.bad) >= 3
    assert len(rule.good) >= 3
    for shown in rule.bad:
        assert shown.lines
        assert all(code in DEFAULT and code != rule.code for code, _ in shown.also)
        assert "# <-" not in shown.source
    for shown in rule.good:
        assert not shown.lines
        assert not shown.also
        assert shown.why.endswith(".")


def test_marks_become_lines() -> None:
    shown = example("""
        one()
        two()  # noqa  # <- here
        three()  # <- here, ACC304
    """)
    assert shown.source == "one()\ntwo()  # noqa\nthree()\n"
    assert shown.lines == (2, 3)
    assert shown.also == (("ACC304", 3),)
    assert "three()  # ACC101, ACC304" in listing(shown, "ACC101")


def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("generate", ROOT / "scripts" / "generate_rule_pages.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_docs_are_the_registry() -> None:
    wanted: dict[str, str] = generator().pages()
    found = {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "docs" / "rules").glob("*.md")}
    assert found == wanted, "run python scripts/generate_rule_pages.py"


def test_the_page_shows_the_sections_in_order() -> None:
    text = page(get_rule("ACC101"))
    headings = [line for line in text.splitlines() if line.startswith("#") and not line.startswith("# labels")]
    assert headings[:8] == [
        "# equal-target-weight (ACC101)",
        "## What it does",
        "## Why it is bad",
        "## Example",
        "## Use instead",
        "## Exceptions",
        "## Repair safety",
        "## References",
    ]


@pytest.mark.parametrize(
    ("opt_in", "preview", "state"), [(False, False, "on"), (True, False, "opt-in"), (False, True, "preview")]
)
def test_what_is_off_says_why(opt_in: bool, preview: bool, state: str) -> None:
    kind = type(get_rule("ACC306"))
    rule = type("Other", (kind,), {"__doc__": kind.__doc__, "opt_in": opt_in, "preview": preview})()
    assert rule.state == state
    assert ("Off by default; select it to turn it on." in page(rule)) == (state != "on")
    assert ("In preview." in page(rule)) == preview
    assert f"| {state} |" in index((rule,))
