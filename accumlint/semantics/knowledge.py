"""What a path is run with and what it learns: budgets, signals, loops, stores of gradients."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING

from accumlint.reading import ir
from accumlint.semantics.numbers import Num
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.values import (
    Object,
    Opaque,
    Site,
    Value,
)

if TYPE_CHECKING:
    from accumlint.apis.registry import Registry
    from accumlint.reading.program import Module
    from accumlint.reading.project import Project
    from accumlint.semantics.frames import Frame


FILE_BUDGET = 900_000
"""How many IR nodes all paths of a file may run together."""

EVENT_BUDGET = 1_500
STEP_BUDGET = 60_000
"""How many IR nodes one path may run; a spent budget stops the path, and no finding is drawn from it."""
DEPTH_BUDGET = 14
CALL_BUDGET = 64
"""How often one function is followed within an iteration: where each of n functions calls the next twice it is 2^n."""
LOOP_BUDGET = 300
LARGEST_LITERAL = 128
"""The longest window that is run in full where the code writes its length down."""


STEPS_NAME = re.compile(r"accum|grad_?acc|update_?freq|micro_?(steps|batches)|num_?micro|gas\b|iters?_to_", re.I)
"""Names that people give to the number of accumulation steps; used last, after all that the code shows."""


class Stopped(Exception):
    """The path cannot be judged; the reason is a result, not a fault."""


class Restart(Exception):
    """Something was learned that the path must know from its start."""


class BreakLoop(Exception):
    pass


class ContinueLoop(Exception):
    pass


class ReturnFrom(Exception):
    def __init__(self, value: Value) -> None:
        self.value = value


class Raised(Exception):
    """The interpreted code raises; `kind` is the exception's name as far as it is known."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


@dataclass(slots=True)
class Knowledge:
    """What earlier runs of a region learned. `steps` is the number of accumulation steps that this run takes."""

    steps: int = 3
    numbers: dict[str, Fraction] = field(default_factory=dict)
    steps_paths: dict[str, None] = field(default_factory=dict)  # unknowns that hold the number of steps, in order
    literal_steps: int | None = None
    lengths: dict[str, int] = field(default_factory=dict)
    shortened: dict[str, None] = field(default_factory=dict)  # loops that were made shorter after a run
    collecting: dict[str, None] = field(default_factory=dict)  # loops without whose full length nothing is reached
    lengthened: int = 0  # how often loaders were made longer because nothing was reached
    foreseen: dict[str, None] = field(default_factory=dict)  # unknown loops whose text was asked for their length
    tied: dict[str, str] = field(default_factory=dict)  # iterables that are zipped are as long as the first of them
    whole: bool = False  # the data shall end with a window
    preferred: dict[str, bool] = field(default_factory=dict)  # conditions whose other answer unbinds a name, or raises
    again: bool = False  # an entry that makes one update is called twice: what it leaves shows in the second
    generic: int = 0
    factors: dict[str, None] = field(default_factory=dict)  # unknowns whose value has no meaning
    supposed: dict[str, None] = field(default_factory=dict)  # unknowns that were given the value of K for their name
    refused: dict[str, None] = field(default_factory=dict)  # names that were supposed to be K, and did not prove to be
    step_entries: dict[str, None] = field(default_factory=dict)  # regions that do one microbatch a call
    apart: dict[str, None] = field(default_factory=dict)  # of those, whose step other methods take
    windows: dict[str, None] = field(default_factory=dict)  # unknown collections whose elements are microbatches
    optimizers: dict[str, frozenset[str]] = field(default_factory=dict)  # of late ones, by path: the modules they reach
    emptied: dict[str, None] = field(default_factory=dict)  # unknown collections whose copy a loop takes apart
    parameters: dict[str, None] = field(default_factory=dict)  # unknown collections whose elements have gradients

    @property
    def window(self) -> int:
        return self.literal_steps or self.steps


@dataclass(slots=True)
class LoopUse:
    """What happened in the iterations of an unknown loop: backwards directly in it, steps at its level, inner loops."""

    direct_backward: bool = False
    direct_step: bool = False
    any_backward: bool = False
    any_step: bool = False
    spread: int = 0  # the most microbatches that one run of the loop saw


def wanted_length(key: str, use: LoopUse | None, knowledge: Knowledge, *, brings: bool = False) -> int | None:
    """How many iterations show what an unknown loop does: whole windows and a partial one, or two epochs.

    `brings` says that what the loop collects is backpropagated by another one. None: its length is of no concern."""
    window = knowledge.window
    brings = brings or key in knowledge.collecting
    if key.startswith("while@") and use is not None and use.any_backward and not use.direct_backward:
        return min(knowledge.lengths[key], 4)
    partial = 1 if knowledge.literal_steps == 2 else 2  # an open K is tried as 2 as well: then all windows are whole
    if knowledge.whole:
        partial = 0
    if brings and (use is None or not use.any_backward):
        return 2 * window + partial
    if use is None or not use.any_backward:
        return min(knowledge.lengths[key], 2) if use is not None and not key.startswith("while@") else None
    if not use.direct_backward:
        return 2 * window + partial if brings else 2
    if not use.any_step:
        return window
    if key.startswith("range@"):
        return 2 * window
    return 2 * window + (3 if key.startswith("while@") else partial)


@dataclass(slots=True)
class LoopState:
    """One running loop."""

    node: ir.NodeId
    key: str
    iteration: int = 0
    is_last: bool = False
    is_data: bool = True
    finite: bool = True
    driven: int = 0  # the length of a loop of the framework, which calls a method of the user's in it
    seen: set[int] = field(default_factory=set)


@dataclass(eq=False, slots=True)
class Store:
    """The gradient of one optimizer's parameters."""

    name: str
    optimizer: Object | None = None
    modules: frozenset[str] = frozenset()
    gradient: dict[tuple[Site, int], Num] = field(default_factory=dict)
    scaled: bool = False
    unscaled: bool = False  # since the last update of the scaler


@dataclass(eq=False)
class Program:
    """What a run reads: the module, the tables, and static answers about blocks."""

    module: Module
    registry: Registry
    relevance: Relevance
    declared: tuple[tuple[str, str], ...] = ()
    project: Project | None = None
    budget: int = FILE_BUDGET
    paired: bool = False  # two ranks: sample points 0 and 1, and 2 and 3, are what the ranks of a run count
    module_frames: dict[str, Frame] = field(default_factory=dict)  # of followed modules: definitions, run once


def is_configured(value: Opaque) -> bool:
    """Whether an unknown is no data: it may be a number of the configuration, also one that a call returns."""
    return all(atom.kind.startswith("call ") for atom in value.lineage)
