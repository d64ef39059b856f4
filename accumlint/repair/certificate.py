"""What has been established about a repair, and nothing more."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Applicability(Enum):
    """As in ruff: safe repairs are applied by `--fix`, unsafe ones on request, display ones never."""

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"


class Check(Enum):
    """One way of establishing a repair."""

    PROVED = "proved"
    EXECUTED = "executed"
    ON_RANKS = "executed on ranks"
    LEAF_CHECKED = "leaf-checked"
    DECLARED = "declared"  # the count is the one of a loss contract, which is among the assumptions
    END_TO_END = "end-to-end"


@dataclass(frozen=True, slots=True)
class Measure:
    """One number behind a check: `error` is the relative L2 norm of the gradient before clip, `limit` its tolerance."""

    check: Check
    error: float
    limit: float
    original_error: float | None = None  # of the unrepaired loop: must exceed the limit
    counts: tuple[tuple[int, ...], ...] = ()
    seed: int | None = None
    engine: str = ""  # "torch 2.13.0", "interpreter"


@dataclass(frozen=True, slots=True)
class Certificate:
    """The level is computed from what was discharged, never set; engines that disagree leave no level at all."""

    discharged: frozenset[Check] = frozenset()
    needs_leaf: bool = True  # False where no count was inserted (a clip that only moves)
    needs_ranks: bool = False  # the loop runs on several ranks
    assumptions: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()  # one line for each piece that would be needed for `safe`
    measures: tuple[Measure, ...] = ()
    disagreement: str = ""  # which two engines disagree, and how
    notes: tuple[str, ...] = field(default=())
    hazard: str = ""  # why it is not to be applied unseen although its checks hold
    suggestion: str = ""  # why it is only shown: it is one way among several, and the choice is the author's

    @property
    def applicability(self) -> Applicability:
        """`safe` = proved + executed + leaf-checked, or proved + end-to-end; never with a disagreement.

        A count that is only declared is an assumption: nobody has held it against the loss. A loop of several ranks is
        also executed on ranks.
        """
        if self.disagreement or self.suggestion:
            return Applicability.DISPLAY
        if self.hazard:
            return Applicability.UNSAFE
        leaf = not self.needs_leaf or Check.LEAF_CHECKED in self.discharged
        if Check.END_TO_END in self.discharged and Check.PROVED in self.discharged:
            return Applicability.SAFE
        ranks = not self.needs_ranks or Check.ON_RANKS in self.discharged
        if {Check.PROVED, Check.EXECUTED} <= self.discharged and leaf and ranks:
            return Applicability.SAFE
        return Applicability.UNSAFE

    @property
    def level(self) -> str:
        """The highest thing established, as it is printed; "none" where nothing was: a declaration establishes none."""
        order = (Check.END_TO_END, Check.LEAF_CHECKED, Check.ON_RANKS, Check.EXECUTED, Check.PROVED)
        if self.disagreement:
            return "none"
        return next((check.value for check in order if check in self.discharged), "none")
