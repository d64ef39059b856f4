"""The output formats by name; a module is imported when it is used. To add one: a module with `render`, a row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from accumlint.report.model import Run


@dataclass(frozen=True, slots=True)
class Format:
    """`repairs` says whether the format shows repairs, so that they have to be planned and proved."""

    module: str
    repairs: bool
    machine: bool  # goes alone to stdout; the summary is left out


FORMATS: dict[str, Format] = {
    "full": Format("accumlint.report.full", repairs=True, machine=False),
    "concise": Format("accumlint.report.concise", repairs=False, machine=False),
    "grouped": Format("accumlint.report.grouped", repairs=False, machine=False),
    "json": Format("accumlint.report.json", repairs=True, machine=True),
    "json-lines": Format("accumlint.report.json_lines", repairs=True, machine=True),
    "sarif": Format("accumlint.report.sarif", repairs=True, machine=True),
    "github": Format("accumlint.report.github", repairs=False, machine=True),
    "gitlab": Format("accumlint.report.gitlab", repairs=False, machine=True),
    "junit": Format("accumlint.report.junit", repairs=False, machine=True),
    "rdjson": Format("accumlint.report.rdjson", repairs=True, machine=True),
}


def load(name: str) -> Callable[[Run], str]:
    """The function that renders a run; its text ends with a line end unless it is empty."""
    render: Callable[[Run], str] = import_module(FORMATS[name].module).render
    return render
