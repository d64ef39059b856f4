"""What a loop did to its gradients: events in order, with the linear form that each left, and a printed form.

One event a line, stable, so that golden tests, bug reports (`accumlint trace FILE`) and the documentation can use it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.record import record, thing
from accumlint.semantics.numbers import Num
from accumlint.semantics.values import Division, Fact, Form, Site

Snapshot = Mapping[tuple[Site, int], Num]
"""A gradient: coefficient of each (site, microbatch)'s value."""

BACKWARD, CLIP, STEP, CLEAR, SCALE, UNSCALE = "backward", "clip", "step", "clear", "scale", "unscale"
ADVANCE, UPDATE, SYNC, END = "advance", "update", "sync", "end"
COLLECT = "collect"  # a sum over ranks; only in a run of two ranks


@record
class Guard:
    """An `if` that was decided on the way to an event: its node, its answer, and whether the test was a number's."""

    node: ir.NodeId
    answer: bool
    numeric: bool


@thing
class Event:
    """One thing that happened to the gradient of one optimizer.

    `gradient` is as the event left it (a step: as it used it; a clear: as it found it). `microbatch` is the number of
    the microbatch that was last forwarded. `guards` are the `if`s around it, outermost first; `loops` the loops
    (node, iteration) around it. `form` is the loss of a backward.
    """

    kind: str
    store: str
    microbatch: int
    node: ir.NodeId
    gradient: Snapshot
    scaled: bool = False
    guards: tuple[Guard, ...] = ()
    loops: tuple[tuple[ir.NodeId, int], ...] = ()
    form: Form | None = None
    by: Num | None = None
    detail: str = ""
    manual: bool = True
    gated: bool = False  # a framework decides whether it acts (and decided that it does)
    sync_node: ir.NodeId = -1  # where gradient synchronisation was last switched
    is_last: bool = False  # in the last iteration of a finite microbatch loop


@record
class Decision:
    """A branch that the code alone does not decide. `basis` is "default", "flipped", "sampled" or "assumed"."""

    key: str
    answer: bool
    basis: str
    node: ir.NodeId
    data: bool = False  # the condition looks at the data
    fork: bool = False  # the side that is not taken holds a backward


@record
class Loader:
    """What is known of a loader: whether it drops a short last batch, and its collate function's text.

    `counts_vary` is what a library's collate function is known to do to the number of valid targets (None: unknown).
    """

    drops_last: bool | None
    collate: str = ""
    node: ir.NodeId = -1
    counts_vary: bool | None = None


@dataclass(slots=True)
class Trace:
    """One path through a region.

    `counts` is the number of microbatches; `lineages[k]` the kinds of the data that microbatch
    k came from. `steps` is the number of accumulation steps K in
    this run with its source text, if the code names one. `ends` marks where a finite loader was exhausted: (event
    index, loop node). `stopped` says why the path is not judged; then no finding may be drawn from it.
    """

    region: str
    events: list[Event] = field(default_factory=list)
    decisions: list[Decision] = field(default_factory=list)
    assumptions: list[str] = field(default_factory=list)
    counts: list[Num] = field(default_factory=list)
    steps: int | None = None
    steps_text: str = ""
    facts: list[Fact] = field(default_factory=list)
    divisions: list[Division] = field(default_factory=list)
    ends: list[tuple[int, ir.NodeId, str]] = field(default_factory=list)
    exempt: str = ""
    stopped: str = ""
    covered: set[ir.NodeId] = field(default_factory=set)  # backward calls that ran
    anchors: dict[ir.NodeId, ir.NodeId] = field(default_factory=dict)  # nodes of other files: the call that led there
    followed: set[ir.NodeId] = field(default_factory=set)  # functions that ran a backward inside
    world: Num | None = None
    logged: list[tuple[ir.NodeId, Form]] = field(default_factory=list)
    tests: dict[ir.NodeId, set[bool]] = field(default_factory=dict)
    untaken: dict[str, ir.NodeId] = field(default_factory=dict)  # event words: the last undecided `if` passed by
    skips: set[ir.NodeId] = field(default_factory=set)  # `if`s whose body continues the loop
    loops: dict[ir.NodeId, int] = field(default_factory=dict)
    guessed: bool = False
    counts_itself: bool = False  # what is driven counts its calls: its first window is known, whoever calls it
    sums_ranks: bool = False
    averages: bool = False  # a model was wrapped by what averages gradients over ranks
    loaders: dict[str, Loader] = field(default_factory=dict)
    lineages: dict[int, tuple[str, ...]] = field(default_factory=dict)
    reduced: bool = False
    averaged: bool = False  # a model was run that the code itself wraps to average gradients over ranks
    frozen: set[ir.NodeId] = field(default_factory=set)  # backwards through a model in eval mode
    means: set[ir.NodeId] = field(default_factory=set)  # unknown losses that are multiplied by their own count

    def of_store(self, store: str) -> list[Event]:
        return [event for event in self.events if event.store == store]

    @property
    def stores(self) -> list[str]:
        return list(dict.fromkeys(event.store for event in self.events if event.store))


def render_gradient(gradient: Snapshot, sites: dict[int, int]) -> str:
    """A gradient as text: `1/3*S1[k1] + 1/3*S1[k2]`, sites numbered by the node that made them."""
    parts = []
    for (site, microbatch), coefficient in gradient.items():
        number = sites.setdefault(site.node, len(sites) + 1)
        if coefficient.is_constant:
            text = str(coefficient.constant)
        else:
            text = "(" + ", ".join("?" if a is None else str(a) for a in coefficient.at) + ")"
        parts.append(f"{text}*{site.reduction}{number}[{microbatch + 1}]")
    return " + ".join(parts) if parts else "0"


def render(trace: Trace) -> str:
    """The printed form of a trace."""
    sites: dict[int, int] = {}
    lines = [f"region {trace.region}"]
    if trace.steps is not None:
        lines.append(f"steps {trace.steps} {trace.steps_text}")
    lines += [f"decision {d.basis} {d.answer} {d.key}" for d in trace.decisions]
    for event in trace.events:
        scaled = " scaled" if event.scaled else ""
        detail = f" {event.detail}" if event.detail else ""
        gradient = render_gradient(event.gradient, sites)
        lines.append(f"{event.kind:9}{event.store or '-'} k{event.microbatch + 1}{scaled}{detail}: {gradient}")
    if trace.exempt:
        lines.append(f"exempt {trace.exempt}")
    if trace.stopped:
        lines.append(f"stopped {trace.stopped}")
    return "\n".join(lines)
