"""`scripts/mutation.py`: its mutants are what they say, one change each."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = """
LIMIT = 3


def kept(values: list[int | None], most: int = LIMIT) -> int | None:
    '''The docstring stays.'''
    total: int | float = 0
    for value in values:
        if value is None or isinstance(value, bool | str):
            continue
        total += value * 2 if not value < most and value else -1
    print(f"{total + 1}")
    return total
"""
KINDS = {
    "never", "always", "Or->And", "Is->IsNot", "continue->break", "without-assignment", "Mult->Add", "other-constant",
    "And->Or", "without-not", "Lt->LtE", "without-part-1", "without-part-2", "without-minus", "without-call",
    "returns-none",
}  # fmt: skip


@pytest.fixture(scope="module")
def script() -> ModuleType:
    pytest.importorskip("resource", reason="POSIX")
    spec = importlib.util.spec_from_file_location("mutation_script", ROOT / "scripts" / "mutation.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # its dataclasses look themselves up
    spec.loader.exec_module(module)
    return module


def test_each_decision_of_a_function_is_changed_and_nothing_else(script: ModuleType) -> None:
    found = script.Places("a.py", ast.parse(SOURCE)).found
    assert {mutant.kind for mutant in found} == KINDS
    original = ast.dump(ast.parse(SOURCE))
    for mutant in found:
        assert ast.dump(ast.parse(mutant.apply(SOURCE))) != original, mutant
        assert mutant.line > 6, "tables, annotations, defaults and docstrings are no decisions"
    changed = next(mutant for mutant in found if mutant.kind == "Lt->LtE").apply(SOURCE)
    assert changed == SOURCE.replace("value < most", "(value <= most)")


def test_the_sample_is_that_of_its_seed(script: ModuleType) -> None:
    first, again = (script.sampled(script.PACKAGES, 50, 0) for _ in range(2))
    assert first == again
    assert len({mutant.key for mutant in first}) == 50
    assert first != script.sampled(script.PACKAGES, 50, 1)
    every = script.mutants(script.PACKAGES)
    assert len(every) > 10_000
    assert len({mutant.key for mutant in every}) == len(every)
    for mutant in first:
        ast.parse(mutant.apply((ROOT / mutant.file).read_text(encoding="utf-8")))


def test_the_score_counts_what_no_test_runs(script: ModuleType) -> None:
    results = {
        "accumlint/contract/a.py:1": "killed",
        "accumlint/contract/a.py:2": "killed by time",
        "accumlint/contract/a.py:3": "survived",
        "accumlint/repair/b.py:1": "not covered",
    }
    assert script.table(results).splitlines()[2:] == [
        "| contract | 3 | 2 | 1 | 0 | 67 % |",
        "| repair | 1 | 0 | 0 | 1 | 0 % |",
        "| all | 4 | 2 | 1 | 1 | 50 % |",
    ]
