"""What a rule is: one page of words around one clause of the contract."""

from __future__ import annotations

import re
import textwrap
from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from accumlint.contract.verdict import Clause, Violation


class Repair(Enum):
    """What can be done about a finding; `None` in a rule means that it is only reported, and the page says why."""

    DEFERRED = "sum the losses, count the targets, divide the gradient once at the boundary"
    MOVE = "move the call to the boundary"
    DELETE = "remove the call"
    FLUSH = "step once more for the partial window"
    BOUNDARY = "correct the boundary test"
    SIGNATURE = "accept and use the count"
    UNSCALE = "unscale the gradient before the clip"
    CLEAR = "clear the gradients after the step"
    RANKS = "multiply by the number of ranks"


@dataclass(frozen=True, slots=True)
class Example:
    """One source text; `lines` are the lines (from 1) on which the rule reports, none for a good example.

    `also` are further codes that the same text rightly bears, with their lines. Each bad example is detected, repaired
    (if the rule repairs), proved and executed by the tests, and stands in the documentation; each good example must be
    silent.
    """

    source: str
    lines: tuple[int, ...] = ()
    why: str = ""  # a sentence for the documentation
    also: tuple[tuple[str, int], ...] = ()


_MARK = re.compile(r" +# <- (.+)$")


def example(source: str, why: str = "") -> Example:
    """An Example from an indented text whose reported lines end in `# <- here`.

    `# <- ACC304` marks a line of `also`; several marks are separated by commas. The marks are not part of the source.
    """
    lines: list[int] = []
    also: list[tuple[str, int]] = []
    kept: list[str] = []
    for number, line in enumerate(textwrap.dedent(source).strip("\n").splitlines(), start=1):
        mark = _MARK.search(line)
        kept.append(_MARK.sub("", line))
        for word in mark.group(1).split(", ") if mark else ():
            if word == "here":
                lines.append(number)
            else:
                also.append((word, number))
    return Example("\n".join(kept) + "\n", tuple(lines), why, tuple(also))


class Rule:
    """A rule. Its docstring is its page: a first line, then the sections `What it does`, `Why it is bad`, `Exceptions`
    and `References`, each under a `## ` heading; `page.py` adds the examples and the safety of the repair.

    Subclasses are found by scanning this folder; a duplicate code is refused.
    """

    code: ClassVar[str]
    name: ClassVar[str]  # reads after "allow ...", as in ruff
    clause: ClassVar[Clause | None]  # None: the rule is about suppressions, not about a trace
    summary: ClassVar[str]  # one line: the table of the README, SARIF's shortDescription
    opt_in: ClassVar[bool] = False
    preview: ClassVar[bool] = False
    repair: ClassVar[Repair | None] = None
    repair_safety: ClassVar[str] = ""  # why its repair is safe, or not
    bad: ClassVar[tuple[Example, ...]] = ()
    good: ClassVar[tuple[Example, ...]] = ()

    @property
    def state(self) -> str:
        """`on`, or why it is off unless it is selected: `opt-in` or `preview`."""
        return "opt-in" if self.opt_in else "preview" if self.preview else "on"

    def message(self, violation: Violation) -> str:
        """One sentence: what happens, in numbers, and what to do. Never empty, no trailing period, one line."""
        raise NotImplementedError

    def hint(self, violation: Violation) -> str:
        """The `help:` line of the full output: the shortest cure."""
        raise NotImplementedError
