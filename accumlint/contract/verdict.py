"""What the contract says about a trace: a clause is broken here, by these numbers, or it was not judged."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # the rules' pages are read at each start, which need not wait for the classes of the IR
    from fractions import Fraction

    from accumlint.reading.ir import NodeId


class Clause(Enum):
    """The clauses of the contract that a window can break. Each rule reads exactly one."""

    TARGET_WEIGHT = "microbatch means over varying numbers of valid targets weigh equally"  # ACC101
    BATCH_WEIGHT = "microbatch means weigh equally, only batch sizes can differ"  # ACC102
    NO_DIVISION = "microbatch means are summed"  # ACC103
    DIVIDED_TWICE = "divided by the number of steps twice"  # ACC104
    IGNORED_ITEM_COUNT = "compute_loss ignores num_items_in_batch"  # ACC105
    WORLD_SIZE = "divided by the global count although gradients are averaged over ranks"  # ACC106
    PARTIAL_DIVISOR = "a partial window is divided by the full number of steps"  # ACC107
    SWALLOWED_ITEM_COUNT = "forward swallows num_items_in_batch"  # ACC108
    CLIP_COUNT = "clips before the window is complete"  # ACC201
    CLIP_SCALED = "clips gradients that are still scaled"  # ACC202
    STEP_COUNT = "steps on every microbatch"  # ACC301
    CLEARED_INSIDE = "clears gradients inside the window"  # ACC302
    NEVER_CLEARED = "a finished window leaks into the next"  # ACC303
    LEFTOVER = "the partial window neither steps nor is cleared"  # ACC304
    OFF_BY_ONE = "the boundary fires on the wrong microbatch"  # ACC305
    SCHEDULE = "the schedule advances per microbatch"  # ACC306
    SCALER = "the scaler moves per microbatch"  # ACC307
    SYNC = "synchronises another microbatch than the last"  # ACC308
    BATCH_NORM = "BatchNorm in train mode under accumulation"  # ACC401
    BATCH_COUPLED = "the loss couples the examples of a batch"  # ACC402
    LOGGED_SCALE = "the logged loss is the divided one"  # ACC403
    UNPROVEN_WEIGHT = "microbatch means weigh equally, counts unknown"  # ACC404


class Confidence(Enum):
    """How a violation was established; printed as the finding's level."""

    PROVED = "proved"  # true at every sample point, by what is in the file
    ASSUMED = "assumed"  # rests on assumptions, which are listed
    GUESSED = "guessed protocol"  # the caller that drives the methods was guessed


@dataclass(frozen=True, slots=True)
class Evidence:
    """Why the counts of two microbatches can differ: a phrase that completes "because ..." and where it was read."""

    reason: str
    node: NodeId | None = None


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken clause, with the numbers that a message is computed from.

    `node` is where it is reported. `actual` and `expected` are coefficients of one microbatch at one sample point
    (weights of a valid target), `counts` the valid targets of the window's microbatches at that point, `weights` what
    each microbatch's mean is multiplied by there. `window` is the number of microbatches in the window, `steps` the
    configured number K (None if nowhere seen). `divisor` is its source text ("args.accum"), `subject` the source text
    of the call that is reported. `other` is a second place that the message may name (the boundary, the first clip,
    the other division).
    """

    clause: Clause
    node: NodeId
    subject: str = ""
    actual: Fraction | None = None
    expected: Fraction | None = None
    counts: tuple[Fraction, ...] = ()
    weights: tuple[Fraction, ...] = ()
    window: int = 0
    steps: int | None = None
    divisor: str = ""
    times: int = 0  # how often the reported call ran in the window
    lost: int = 0  # microbatches whose gradient is lost, stale or left over
    evidence: tuple[Evidence, ...] = ()
    assumptions: tuple[str, ...] = ()
    confidence: Confidence = Confidence.PROVED
    other: NodeId | None = None
    detail: str = ""  # which of a rule's wordings applies; documented in the rule


@dataclass(frozen=True, slots=True)
class Abstention:
    """Why a region was not judged, in one line."""

    reason: str
    node: NodeId | None = None
