"""What the server asks of its worker process and what it gets back: plain data that pickles."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from accumlint.repair.certificate import Applicability
from accumlint.report.model import CheckedFile


class Task(Enum):
    CHECK = "check"  # findings only
    REPAIRS = "repairs"  # findings with the edits of their repairs
    FIX_ALL = "fix all"  # the edits of `check --fix`


@dataclass(frozen=True, slots=True)
class Job:
    """One document at one version. `path` is absolute where the document is a file; `text` is the editor's text."""

    task: Task
    path: str
    text: str
    config: str | None = None  # read this pyproject.toml instead of the nearest one
    confirm: bool = True  # execute repairs with torch, as `check --fix` does


@dataclass(frozen=True, slots=True)
class Change:
    """Replace the lines from `first` up to `last` (from 0, `last` not included) by `content`.

    Lines are those of the document; of a notebook those of the cell `cell` (from 1, among the code cells).
    """

    cell: int | None
    first: int
    last: int
    content: str


@dataclass(frozen=True, slots=True)
class Offer:
    """A change that the user can choose. With `refused` it is only named, with the reason."""

    title: str
    findings: tuple[int, ...]  # indices into the findings of the answer
    changes: tuple[Change, ...] = ()
    applicability: Applicability | None = None  # None: no repair (a noqa comment)
    refused: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """`file` is None for a document that the configuration excludes, or if there was an `error`."""

    file: CheckedFile | None = None
    offers: tuple[Offer, ...] = ()
    changes: tuple[Change, ...] = ()  # of FIX_ALL
    error: str = ""  # of the configuration, in one line
