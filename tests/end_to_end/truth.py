"""The scripts that are driven, what stands in them, and what the driver must find for it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import case_specs
import framework_specs
import sample_specs
import shape_specs
from drive import Problem, Report, drive

ROOT = Path(__file__).resolve().parents[2]
CASES = ROOT / "tests" / "cases" / "dev"
SAMPLES = ROOT / "samples"
SHAPES = Path(__file__).parent / "shapes"
FOLDERS = {
    CASES: {**case_specs.SPECS, **framework_specs.SPECS},
    SAMPLES: sample_specs.SPECS,
    SHAPES: shape_specs.SPECS,
}
NOT_DRIVEN = {**case_specs.NOT_DRIVEN, **framework_specs.NOT_DRIVEN, **shape_specs.NOT_DRIVEN}

# which faults of the driver each code stands for: at least one of them must show, and no fault without a code
FAULTS = {
    "ACC101": {"gradient"},
    "ACC102": {"gradient"},
    "ACC103": {"gradient"},
    "ACC104": {"gradient"},
    "ACC106": {"gradient"},
    "ACC107": {"gradient"},
    "ACC201": {"clips"},
    "ACC202": {"gradient"},
    "ACC301": {"windows"},
    "ACC302": {"gradient"},
    "ACC303": {"gradient"},
    "ACC304": {"leftover"},
    "ACC305": {"windows"},
    "ACC306": {"schedule"},
    "ACC307": {"scaler", "windows"},
    "ACC308": {"gradient"},
    "ACC401": {"gradient"},
    "ACC402": {"gradient"},
    "ACC403": set(),
}
# what follows from a fault: a clip of a wrong gradient is a wrong clip, a lost remainder shifts the later windows
FOLLOWS = {
    "ACC201": {"gradient", "clip"},
    "ACC202": {"clip"},
    "ACC301": {"gradient", "clip", "scaler"},
    "ACC304": {"windows", "gradient"},
    "ACC305": {"gradient", "leftover"},
    "ACC307": {"gradient", "scaler", "clip"},
}
EXPECT = re.compile(r"#\s*expect(?:-optin)?:\s*(ACC\d{3}(?:\s*,\s*ACC\d{3})*)\s*$", re.MULTILINE)


def scripts() -> Iterator[tuple[str, Path]]:
    """(name, path) of every driven script."""
    for folder, specs in FOLDERS.items():
        for name in specs:
            yield name, folder / f"{name}.py"


def scenarios(name: str) -> dict[str, Callable[[], Problem]]:
    return next(specs[name] for specs in FOLDERS.values() if name in specs)


def codes_of(text: str) -> set[str]:
    """The codes that the script's own marks expect."""
    return {code.strip() for marks in EXPECT.findall(text) for code in marks.split(",")}


def run_scenarios(name: str, text: str, repaired: bool = False) -> dict[str, Report]:
    """Drive a script's text (original or repaired) through all scenarios of its spec."""
    return {
        scenario: drive(text, build)
        for scenario, build in scenarios(name).items()
        if repaired or (name, scenario) not in case_specs.ONLY_REPAIRED
    }


def possible_faults(codes: set[str]) -> set[str]:
    """Faults that are explained by the codes."""
    faults = {fault for code in codes for fault in FAULTS.get(code, set()) | FOLLOWS.get(code, set())}
    return faults | {"clip"} if "gradient" in faults else faults


def check_repaired(name: str, repaired: str, remaining: set[str] = frozenset()) -> dict[str, Report]:
    """Raise AssertionError unless the repaired text makes the full-batch update in every scenario.

    `remaining` are codes that the tool still reports for the repaired text: what they explain is allowed.
    """
    reports = run_scenarios(name, repaired, repaired=True)
    for scenario, report in reports.items():
        unexplained = report.faults - possible_faults(remaining)
        assert not unexplained, f"{name}, {scenario}: {sorted(unexplained)}\n{report.describe()}\n\n{repaired}"
    return reports
