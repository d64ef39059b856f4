"""The state of one path, and what every part of the interpreter may ask of it.

A path is one run from the start with a list of recorded decisions; nothing is ever forked or copied, so that one
path's state is plain mutable Python. What a run learns about unknown configuration (which name holds the number of
accumulation steps, how long a loop should be) is kept in `Knowledge`, and the path is run again with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from accumlint.reading import ir
from accumlint.reading.project import FOREIGN
from accumlint.semantics.frames import Frame
from accumlint.semantics.numbers import POINTS, Num, number
from accumlint.semantics.points import count_of
from accumlint.semantics.trace import Decision, Event, Guard, Snapshot, Trace
from accumlint.semantics.values import (
    Atom,
    Form,
    Lineage,
    Object,
    Opaque,
    Site,
    Stream,
    Value,
    derived,
    modules_of,
)

if TYPE_CHECKING:
    pass

from accumlint.semantics.knowledge import (
    DEPTH_BUDGET,
    EVENT_BUDGET,
    LOOP_BUDGET,
    STEP_BUDGET,
    BreakLoop,
    ContinueLoop,
    Knowledge,
    LoopState,
    LoopUse,
    Program,
    Raised,
    Restart,
    ReturnFrom,
    Stopped,
    Store,
    is_configured,
    wanted_length,
)

OUT_OF_STEPS = "the step budget is spent"


class MachineState:
    """The mutable state of one path; the interpreter's parts are mixed into `Machine` on top of it."""

    def __init__(self, program: Program, knowledge: Knowledge, forced: dict[str, bool], region: str) -> None:
        self.program = program
        self.knowledge = knowledge
        self.forced = forced
        self.trace = Trace(region)
        self.stores: dict[str, Store] = {}
        self.universe: dict[tuple[Site, int], Num] = {}
        self.universe_scaled = False
        self.loops: list[LoopState] = []
        self.guards: list[Guard] = []
        self.uses: dict[str, LoopUse] = {}
        self.microbatches: dict[Atom, int] = {}
        self.current = -1
        self.no_grad = 0
        self.depth = 0
        self.budget = min(STEP_BUDGET, program.budget)
        self.serial = 0
        self.spent = 0
        self.answers: dict[str, bool] = {}
        self.chosen: dict[tuple[ir.NodeId, str], bool] = {}  # the sides of undecided `if`s, by the `if` and its test
        self.stack: list[str] = []
        self.callers: list[ir.NodeId] = []  # the calls that led to where the run is
        self.made_by: dict[str, tuple[ir.NodeId, ...]] = {}  # those that led to where an optimizer was made
        self.slices: dict[tuple[object, ...], Atom] = {}
        self.sites: dict[int, tuple[Opaque, Form]] = {}
        self.objects: dict[str, Object] = {}
        self.catching: list[frozenset[str]] = []
        self.builtins = Frame("builtins")
        self.setting_up = False
        self.fields: dict[tuple[str, str], Value] = {}
        self.sync = True
        self.forward_sync: bool | None = None
        self.moduli: list[int] = []
        self.range_stops: dict[str, Opaque] = {}
        self.following: list[str] = []
        self.anchor: ir.NodeId = -1  # the call of the checked file that led into another one
        self.comprehending = 0
        self.guessing = 0  # how many branches deep the run is that were only guessed to be taken
        self.fork = False  # whether the side that is not taken next holds a backward of its own
        self.streamed: set[str] = set()
        self.cut_into: dict[str, int] = {}  # the number of parts of data that was cut, by the key of its length
        self.pieces: dict[str, Opaque] = {}  # the same where the number is not known
        self.model_classes: dict[str, str] = {}  # the library class of a model, also after it was wrapped
        self.followed_here: dict[ir.NodeId, tuple[object, int]] = {}  # functions: where the loops were, how often then
        self.listed: dict[str, int] = {}  # unknown ranges that a comprehension went over: how many elements it listed
        self.sized: dict[str, str] = {}  # lengths of shuffled data that were asked for: the keys of the data
        self.filled: set[str] = set()  # data whose selected elements were overwritten (`labels[pad] = -100`)
        self.sync_node: ir.NodeId = -1
        self.asked: set[str] = set()  # unknown collections whose length, or every element, was asked for
        self.called: set[str] = set()  # unknown things that were called on data: models, and helpers of other files
        self.modes: dict[str, bool] = {}  # whether a module is in train mode, where the code says so
        self.wrapped: dict[str, Stream] = {}  # counted elements that were handed to something unknown, by its path
        self.unanswered: dict[str, int] = {}  # unknowns whose number was asked for in vain: when first, in nodes
        self.configured: dict[str, Num] = {}  # numbers of the configuration, by the unknown that holds them
        self.postponing = 0  # how many askers keep what they asked for
        self.made: dict[str, int] = {}  # how many things one place of the code has made
        for path, modules in knowledge.optimizers.items():
            self.stores[path] = Store(path, modules=modules)

    # ------------------------------------------------------------------------------------------ budgets

    def spend(self, amount: int = 1) -> None:
        self.budget -= amount
        self.spent += amount
        if self.budget < 0:
            raise Stopped(OUT_OF_STEPS)

    # --------------------------------------------------------------------------------------------- data

    def new_atom(self, kind: str, rank: int) -> Atom:
        self.serial += 1
        return Atom(rank, self.serial, kind)

    def arrival(self, kind: str, rank: int = 1) -> Lineage:
        """The lineage of data that arrives now."""
        return frozenset({self.new_atom(kind, rank)})

    def microbatch_of(self, lineage: Lineage) -> int:
        """The number (from 0) of the microbatch that data belongs to; data from nowhere names the loop iteration."""
        atom = max(lineage) if lineage else None
        if atom is None or atom.rank < 0:  # random numbers alone: the loop that draws them says which microbatch
            atom = self._iteration_atom()
        if atom not in self.microbatches:
            self.microbatches[atom] = len(self.microbatches)
            self.trace.counts.append(count_of(len(self.microbatches) - 1, POINTS))
            kinds = sorted({part.kind for part in lineage})
            self.trace.lineages[self.microbatches[atom]] = tuple(kinds)
        return self.microbatches[atom]

    def _iteration_atom(self) -> Atom:
        for loop in reversed(self.loops):
            if loop.is_data:
                key = ("iteration", loop.node, tuple((outer.node, outer.iteration) for outer in self.loops))
                if key not in self.slices:
                    self.slices[key] = self.new_atom("iteration", 0)
                return self.slices[key]
        outside: tuple[object, ...] = ("iteration", -1)
        if outside not in self.slices:
            self.slices[outside] = self.new_atom("iteration", 0)
        return self.slices[outside]

    def count_for(self, lineage: Lineage, text: str) -> Num:
        """How many targets data holds, as an unknown number."""
        count = self.trace.counts[k] if (k := self.microbatch_of(lineage)) >= 0 else number(1)
        return Num(count.at, text or count.text, count.unknowns)

    # ------------------------------------------------------------------------------------------- events

    def distinct(self, path: str) -> str:
        """A name for a thing that is made now: what one place of the code makes twice are two things."""
        count = self.made[path] = self.made.get(path, 0) + 1
        return path if count == 1 else f"{path}#{count}"

    def store_of(self, optimizer: Object) -> Store:
        """The store of an optimizer; one that appears late has received what came before from its own modules."""
        shared = optimizer.attributes.get("shares")
        if isinstance(shared, Object):
            return self.store_of(shared)
        store = self.stores.get(optimizer.path)
        if store is not None and store.optimizer is None:
            store.optimizer = optimizer
        if store is None:
            own = frozenset[str]() if _is_instance(optimizer) else optimizer.modules  # an instance may hold any part
            modules = own.union(*(modules_of(v) for v in optimizer.of if not _is_instance(v)))
            if any(meet(modules, site.modules) for site, _ in self.universe):
                self.knowledge.optimizers[optimizer.path] = modules
                raise Restart
            store = self.stores[optimizer.path] = Store(optimizer.path, optimizer, modules)
        return store

    def reached_stores(self, modules: frozenset[str]) -> list[Store]:
        """The stores that a loss computed by these modules reaches."""
        return [store for store in self.stores.values() if meet(modules, store.modules)]

    def emit(
        self,
        kind: str,
        node: ir.NodeId,
        store: Store | None = None,
        *,
        snapshot: Snapshot | None = None,
        form: Form | None = None,
        by: Num | None = None,
        detail: str = "",
        gated: bool = False,
    ) -> None:
        gradient = dict(store.gradient) if store is not None and snapshot is None else dict(snapshot or {})
        self.trace.events.append(
            Event(
                kind,
                store.name if store is not None else "",
                self.current,
                node,
                gradient,
                bool(store is not None and store.scaled),
                tuple(self.guards),
                tuple((loop.node, loop.iteration) for loop in self.loops),
                form,
                by,
                detail,
                True,
                gated,
                self.sync_node,
                self._in_last_iteration(),
            )
        )
        self.anchored(node)
        if len(self.trace.events) > EVENT_BUDGET:
            raise Stopped("too many gradient events")
        if kind in ("backward", "step") and detail != "repeat":
            self._note_use(kind)

    def anchored(self, node: ir.NodeId) -> None:
        """Remember from where in the checked file a node of another file was reached."""
        if node >= FOREIGN and self.anchor >= 0:
            self.trace.anchors.setdefault(node, self.anchor)

    def _in_last_iteration(self) -> bool:
        loop = next((loop for loop in reversed(self.loops) if loop.is_data), None)
        return loop is not None and loop.finite and loop.is_last

    def _note_use(self, kind: str) -> None:
        direct = True
        for loop in reversed(self.loops):
            if kind == "backward" and direct and loop.is_data:
                self._learn_window(loop.key)
            use = self.uses.setdefault(loop.key, LoopUse())
            if kind == "backward":
                use.any_backward = True
                loop.seen.add(self.current)
                use.spread = max(use.spread, len(loop.seen))
                use.direct_backward |= direct and loop.is_data
            else:
                use.any_step = True
                use.direct_step |= direct and loop.is_data
            direct = direct and not loop.is_data

    def _learn_window(self, key: str) -> None:
        """A collection is a window of microbatches: what was asked of it before counts over all of them."""
        collection = collection_of(key)
        if collection in self.asked and collection not in self.knowledge.windows:
            self.knowledge.windows[collection] = None
            raise Restart

    def brings_microbatches(self, key: str) -> bool:
        """Whether what a loop collects is backpropagated by another loop, one element a microbatch."""
        backwards = {event.microbatch for event in self.trace.events if event.kind == "backward"}
        return any(self.trace.lineages.get(microbatch) == (f"batch:{key}",) for microbatch in backwards)

    def is_window(self, key: str) -> bool:
        """Whether a loop over an unknown collection is known to bring one microbatch an element."""
        self.asked.add(collection_of(key))
        return collection_of(key) in self.knowledge.windows

    def assume(self, text: str) -> None:
        if text not in self.trace.assumptions:
            self.trace.assumptions.append(text)

    # ---------------------------------------------------------------------------------------- decisions

    def decide(self, key: str, default: bool, node: ir.NodeId, *, data: bool, may_flip: bool) -> bool:
        """The answer to an undecided condition: the same text has the same answer on a path."""
        fork, self.fork = self.fork, False
        if key in self.answers:
            self._raise_basis(key, may_flip=may_flip, fork=fork)
            return self.answers[key]
        answer = self.forced.get(key, self.knowledge.preferred.get(key, default))
        self.answers[key] = answer
        basis = "flipped" if key in self.forced and answer != default else ("default" if may_flip else "assumed")
        self.trace.decisions.append(Decision(key, answer, basis, node, data, fork))
        return answer

    def _raise_basis(self, key: str, *, may_flip: bool, fork: bool) -> None:
        """A condition that was first asked where nothing hung on it, and now where something does."""
        if not (may_flip or fork):
            return
        for place, known in enumerate(self.trace.decisions):
            if known.key == key and known.basis != "flipped":
                basis = "default" if may_flip else known.basis
                if (basis, known.fork or fork) == (known.basis, known.fork):
                    continue
                self.trace.decisions[place] = replace(known, basis=basis, fork=known.fork or fork)

    # ----------------------------------------------------------------------------------------- opaque

    def opaque(self, path: str, *sources: Value, node: ir.NodeId = -1, gradient: bool | None = None) -> Opaque:
        """An unknown value that derives from its sources."""
        lineage, modules, carries = derived(sources)
        carries = carries if gradient is None else gradient
        return Opaque(path, lineage, carries and not self.no_grad, modules, node=node)

    def enclosing(self) -> Iterator[LoopState]:
        return reversed(self.loops)


def collection_of(key: str) -> str:
    """The key of a collection without its place among others: all windows of a stream of windows are alike."""
    return re.sub(r"\[\d+\]", "[]", key)


def meet(modules: frozenset[str], others: frozenset[str]) -> bool:
    """Whether two sets of modules may share parameters; unknown on either side means yes."""
    return not modules or not others or not modules.isdisjoint(others)


def _is_instance(value: Value) -> bool:
    return isinstance(value, Object) and value.instance is not None


__all__ = [
    "DEPTH_BUDGET",
    "LOOP_BUDGET",
    "STEP_BUDGET",
    "BreakLoop",
    "ContinueLoop",
    "Knowledge",
    "LoopState",
    "LoopUse",
    "MachineState",
    "Program",
    "Raised",
    "Restart",
    "ReturnFrom",
    "Stopped",
    "Store",
    "is_configured",
    "wanted_length",
]
