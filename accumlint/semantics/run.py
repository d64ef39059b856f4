"""From a module to traces: which code is run, how a path is repeated until it has learned enough, and flipped.

This is the only entry of the layer. Candidates are functions that can reach a `backward`; outermost ones first, so that
a helper is read with the arguments that its caller gives. Whatever a caller's run did not reach is run on its own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from fractions import Fraction
from typing import overload

from accumlint.apis.registry import Registry
from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.project import Project
from accumlint.semantics.attributes import Machine
from accumlint.semantics.check import check_trace
from accumlint.semantics.drivers import start
from accumlint.semantics.knowledge import LARGEST_LITERAL
from accumlint.semantics.lengths import FIRST_LENGTH
from accumlint.semantics.machine import (
    BreakLoop,
    ContinueLoop,
    Knowledge,
    LoopUse,
    Program,
    Raised,
    Restart,
    ReturnFrom,
    Stopped,
    is_configured,
    wanted_length,
)
from accumlint.semantics.regions import Region, find_regions
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.trace import BACKWARD, STEP, Trace

RESTARTS = 24
LONG = (20, 70)
"""How long loaders are made, one after the other, where nothing was reached with the usual lengths."""
FLIPS = 6
STEPS = (3, 2)
"""The numbers of accumulation steps that are tried where the code leaves it open."""


class Path(Sequence[Trace]):
    """The traces of one path, one for each value of K in `STEPS`; a single one if the code has its own K.

    The first is there; the others are run when they are asked for: most rules look at the first alone.
    """

    def __init__(self, first: Trace, later: Callable[[], Trace | None] | None = None) -> None:
        self.known = [first]
        self._later = later

    @property
    def first(self) -> Trace:
        return self.known[0]

    def all(self) -> list[Trace]:
        """The traces for every K; what has not been run yet is run now."""
        later, self._later = self._later, None
        if later is not None and (trace := later()) is not None:
            self.known.append(trace)
        return self.known

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | list[Trace]:
        return self.known[0] if index == 0 else self.all()[index]

    def __len__(self) -> int:
        return len(self.all())


@dataclass(slots=True)
class Result:
    """What running a region gave: the default path and the flipped ones.

    For code with its own K, a thorough run adds a trace of data that end with a window: `whole`.
    """

    region: Region
    default: Path
    flipped: list[Path] = field(default_factory=list)
    whole: list[Trace] = field(default_factory=list)

    @property
    def stopped(self) -> str:
        return self.default.first.stopped


def analyse(
    module: Module,
    registry: Registry,
    project: Project | None = None,
    *,
    thorough: bool = False,
    paired: bool = False,
) -> list[Result]:
    """Run everything in a module that reaches a backward.

    With `paired`, neighbouring sample points are two ranks that count differently, and what is summed over the ranks
    is their sum; without, every rank counts the same, and their number is an unknown.
    """
    program = Program(module, registry, Relevance.of(module.nodes, project), project=project, paired=paired)
    covered: set[ir.NodeId] = set()
    followed: set[ir.NodeId] = set()
    computed: set[ir.NodeId] = set()
    results: list[Result] = []
    for region in find_regions(program):
        if (region.backwards and region.backwards <= covered) or region.node in followed:
            continue
        if not region.losses.isdisjoint(computed):
            continue
        result = run_region(program, region, thorough=thorough)
        for trace in (*result.default.known, *(t for path in result.flipped for t in path.known)):
            if not trace.stopped:
                covered |= trace.covered
                followed |= trace.followed
                computed |= {site.node for e in trace.events if e.form is not None for site, _ in e.form.terms}
        results.append(result)
    return _worth_saying(results, covered)


def _worth_saying(results: list[Result], covered: set[ir.NodeId]) -> list[Result]:
    """Without the regions that were run in vain and whose backwards others have run.

    A loop that was stopped is one of those only if what it calls has a step of its own, or another one was stopped
    there.
    """
    stepped: set[ir.NodeId] = set()
    for result in results:
        if not result.stopped and any(event.kind == STEP for event in result.default.first.events):
            stepped |= result.default.first.covered
    kept: list[Result] = []
    for result in results:
        backwards = result.region.backwards
        if _says_something(result) or not backwards <= covered:
            kept.append(result)
        elif result.stopped and not backwards <= stepped:
            kept.append(result)
            stepped |= backwards
    return kept


def _says_something(result: Result) -> bool:
    return not result.stopped and any(event.kind == BACKWARD for event in result.default.first.events)


def run_region(program: Program, region: Region, *, thorough: bool = False) -> Result:
    """The default path of a region and its flips: where another backward lies, or (`thorough`) any event."""
    first = Knowledge(steps=STEPS[0], again=thorough)
    machine, fixed = _settle(program, region, first, {})
    trace = machine.trace
    second = None if fixed or trace.stopped else _with_steps(machine, STEPS[1])

    def again() -> Trace | None:
        return None if second is None else _settle(program, region, second, {})[0].trace

    def flip(forced: dict[str, bool]) -> Path:
        def flipped_again() -> Trace | None:
            if second is None:
                return None
            result.default.all()  # what the default path learns about this K, the flipped one need not learn
            return _settle(program, region, deepcopy(second), forced)[0].trace

        return Path(_settle(program, region, deepcopy(first), forced)[0].trace, flipped_again)

    result = Result(region, Path(trace, again))
    if fixed and thorough and not trace.stopped:
        result.whole.append(_settle(program, region, _with_whole_windows(machine), {})[0].trace)
    if not trace.stopped:
        forks = [d for d in trace.decisions if d.basis == "default" and (thorough or d.fork)]
        result.flipped = [flip({decision.key: not decision.answer}) for decision in forks[:FLIPS]]
    if thorough:
        for path in (result.default, *result.flipped):
            path.all()
    return result


def _settle(program: Program, region: Region, knowledge: Knowledge, forced: dict[str, bool]) -> tuple[Machine, bool]:
    """Run a path until nothing new is learned. Returns the last machine and whether K is the code's own number."""
    for _ in range(RESTARTS):
        machine = Machine(program, knowledge, forced, region.name)
        try:
            _run_once(machine, region)
        except Restart:
            continue
        finally:
            program.budget -= machine.spent
        if knowledge.supposed:
            _refuse(knowledge)
            continue
        if not machine.trace.stopped and _learn_lengths(machine):
            continue
        trace = machine.trace
        check_trace(trace)
        if trace.steps is None and knowledge.steps_paths:
            trace.steps, trace.steps_text = knowledge.steps, next(iter(knowledge.steps_paths))
        elif trace.steps is None and knowledge.literal_steps in window_sizes(trace):
            trace.steps, trace.steps_text = knowledge.literal_steps, str(knowledge.literal_steps)
        if trace.steps is not None and trace.steps > LARGEST_LITERAL and trace.steps not in window_sizes(trace):
            trace.stopped = trace.stopped or f"a window of {trace.steps} microbatches is too long to be followed"
        return machine, not knowledge.steps_paths and not _has_free_window(machine)
    machine = Machine(program, knowledge, forced, region.name)
    machine.trace.stopped = "its configuration does not settle"
    return machine, True


def _refuse(knowledge: Knowledge) -> None:
    """What was supposed to be the number of steps, and did not prove to be, is a number that is not known."""
    for path in knowledge.supposed:
        del knowledge.numbers[path]
    knowledge.refused |= knowledge.supposed
    knowledge.supposed.clear()


def _with_steps(machine: Machine, steps: int) -> Knowledge:
    """What a settled run learned, for another number of accumulation steps: most of it need not be learned again."""
    knowledge = deepcopy(machine.knowledge)
    for path in knowledge.steps_paths:
        if knowledge.numbers[path] == knowledge.steps:
            knowledge.numbers[path] = Fraction(steps)
    knowledge.steps = steps
    for key in knowledge.lengths:
        wanted = _length_for(machine, key, knowledge)
        if wanted is not None:
            knowledge.lengths[key] = wanted
    return knowledge


def _with_whole_windows(machine: Machine) -> Knowledge:
    """The same for data that end with a window, where the code has its own K: nothing may be left to step for then."""
    knowledge = deepcopy(machine.knowledge)
    knowledge.whole = True
    for key in knowledge.lengths:
        wanted = _length_for(machine, key, knowledge)
        if wanted is not None:
            knowledge.lengths[key] = wanted
    return knowledge


def _has_free_window(machine: Machine) -> bool:
    return any(use.direct_backward and not use.any_step for use in machine.uses.values())


def _run_once(machine: Machine, region: Region) -> None:
    try:
        machine.spend(0)  # where the file's budget is spent, its set-up is not run for each region that is left
        start(machine, region)
    except Stopped as stopped:
        machine.trace.stopped = str(stopped)
    except (Raised, ReturnFrom, BreakLoop, ContinueLoop):
        pass
    except RecursionError:
        machine.trace.stopped = "nested too deeply"


def _learn_lengths(machine: Machine) -> bool:
    """After a run: how long should the unknown loops be, now that it is known what happens in them?"""
    knowledge = machine.knowledge
    changed = False
    literal = _literal_steps(machine)
    if literal is not None and knowledge.literal_steps != literal:
        knowledge.literal_steps = literal
        changed = True
    if not machine.universe and not any(e.kind == BACKWARD for e in machine.trace.events):
        return changed or _keep_long(knowledge) or _lengthen(knowledge)
    for key in machine.range_stops.keys() - knowledge.lengths.keys():
        changed |= _learn_range(machine, key, machine.uses.get(key))
    for key in list(knowledge.lengths):
        changed |= _learn_range(machine, key, machine.uses.get(key))
        wanted = _length_for(machine, key, knowledge)
        if wanted is not None and knowledge.lengths[key] != wanted:
            if wanted < knowledge.lengths[key]:
                knowledge.shortened[key] = None
            knowledge.lengths[key] = wanted
            changed = True
    return changed


def _keep_long(knowledge: Knowledge) -> bool:
    """Nothing is reached any more: the loops that were made shorter collect what another one backpropagates."""
    keys = list(knowledge.shortened)
    knowledge.collecting.update(knowledge.shortened)
    knowledge.shortened.clear()
    for key in keys:
        knowledge.lengths[key] = 2 * knowledge.window + 2
    return bool(keys)


def _lengthen(knowledge: Knowledge) -> bool:
    """Nothing was reached: loaders may have to be longer before a whole window fits (`len(loader) // 8 * 8`)."""
    keys = [
        key
        for key, length in knowledge.lengths.items()
        if FIRST_LENGTH <= length < LONG[-1] and not key.startswith(("range", "while"))
    ]
    if knowledge.lengthened == len(LONG):
        return False
    knowledge.lengthened += 1
    for key in keys:
        knowledge.lengths[key] = next(longer for longer in LONG if longer > knowledge.lengths[key])
    return bool(keys)


def _learn_range(machine: Machine, key: str, use: LoopUse | None) -> bool:
    """An unknown number that is the length of a window, by the loop over it, is the number of accumulation steps."""
    stop = machine.range_stops.get(key)
    if machine.trace.steps is not None:  # a framework counts: where no step was seen, the loop was too short
        return False
    if stop is None or use is None or not use.direct_backward or use.any_step or use.spread < 2:
        return False
    if not machine.is_open(stop) or not is_configured(stop):
        return False
    try:
        machine.learn_steps(stop)
    except Restart:
        return True
    return False


def _length_for(machine: Machine, key: str, knowledge: Knowledge) -> int | None:
    """How long an unknown loop should be with the number of steps in `knowledge`, by what happened in a run."""
    use = machine.uses.get(key)
    if key in machine.streamed and (use is None or not use.direct_backward) and machine.universe:
        use = LoopUse(direct_backward=True, any_backward=True, any_step=True)
    return wanted_length(key, use, knowledge, brings=machine.brings_microbatches(key))


def _literal_steps(machine: Machine) -> int | None:
    """A number of accumulation steps that the code itself writes down: it shows in how often the optimizer steps."""
    trace = machine.trace
    if machine.knowledge.steps_paths:
        return None
    known = machine.knowledge.literal_steps or 0
    windows = window_sizes(trace)
    if trace.steps is not None:  # a framework counts: without a whole window the loops were too short
        return trace.steps if trace.steps not in windows and known != trace.steps <= LARGEST_LITERAL else None
    usual = max(set(windows), key=lambda size: (windows.count(size), size)) if windows else 0
    confirmed = [m for m in machine.moduli if m in windows and m <= LARGEST_LITERAL]
    if confirmed and known not in windows:
        return max(confirmed) if max(confirmed) != known else None
    waiting = any(use.direct_backward and not use.direct_step for use in machine.uses.values())
    waiting |= len(windows) == 1 and _pending(trace) > 1  # `i % 8 == 0` from 0: the whole window is still to come
    named = [m for m in machine.moduli if m <= LARGEST_LITERAL]
    if not known and waiting and named and any(e.kind == BACKWARD for e in trace.events):
        return max(usual, *named)
    if known and known not in windows and usual > 1:
        return usual  # the number that was taken for K was another one: windows have this size whatever it is
    return usual if usual > max(known, 1) else None


def _pending(trace: Trace) -> int:
    """How many backwards came after the last step."""
    kinds = [event.kind for event in trace.events if event.kind in (BACKWARD, STEP)]
    return next((count for count, kind in enumerate(reversed(kinds)) if kind == STEP), len(kinds))


def window_sizes(trace: Trace) -> list[int]:
    """How many microbatches were forwarded before each step, store by store."""
    sizes: list[int] = []
    for store in trace.stores:
        seen: set[int] = set()
        for event in trace.of_store(store):
            if event.kind == BACKWARD:
                seen.add(event.microbatch)
            elif event.kind == STEP:
                sizes.append(len(seen))
                seen = set()
    return sizes
