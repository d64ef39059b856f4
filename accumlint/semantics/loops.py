"""Loops and what they run over: loaders, ranges, iterators, lists, generators."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import islice

from accumlint.reading import ir
from accumlint.reading.project import FOREIGN
from accumlint.reading.walk import walk
from accumlint.semantics.frames import Frame
from accumlint.semantics.lengths import Lengths
from accumlint.semantics.machine import (
    LOOP_BUDGET,
    BreakLoop,
    ContinueLoop,
    LoopState,
    Raised,
    Stopped,
    is_configured,
)
from accumlint.semantics.trace import BACKWARD, STEP, Loader
from accumlint.semantics.values import (
    Form,
    FunctionValue,
    Items,
    Mapping,
    Object,
    Opaque,
    RangeValue,
    Stream,
    Value,
    lineage_of,
    path_of,
)

_ENDLESS = re.compile(r"cycle|infinite|endless|forever|\brepeat", re.I)
LONG = 64
"""After so many iterations a `while` that trains and goes on has shown what it does: `while step < 100_000`."""
_STREAM = re.compile(r"elements of \S*stream", re.I)


@dataclass(slots=True)
class Iteration:
    """What a loop runs over: its elements, where its length came from, whether it ends, whether it brings data."""

    elements: Iterator[Value]
    key: str
    finite: bool = True
    is_data: bool = True


class Loops(Lengths):
    """Runs loops and makes iterators."""

    # ---------------------------------------------------------------------------------------- iterables

    def iteration(self, value: Value, node: ir.NodeId) -> Iteration:
        """How a `for` runs over a value."""
        if isinstance(value, Opaque) and value.path in self.knowledge.parameters:
            value = replace(value, kind="parameters")
        if isinstance(value, Items):
            is_data = not all(isinstance(item, (Form, str, Object, FunctionValue)) for item in value.items)
            return Iteration(iter(list(value.items)), value.key or f"items@{node}", is_data=is_data)
        if isinstance(value, Mapping):
            return Iteration(iter(list(value.items)), f"items@{node}", is_data=False)  # type: ignore[arg-type]
        if isinstance(value, RangeValue):
            return self._range_iteration(value)
        if isinstance(value, Stream):
            return Iteration(value.iterator, value.key, value.finite)
        if isinstance(value, str):
            return Iteration(iter([value]), f"string@{node}", is_data=False)
        if isinstance(value, Opaque) and value.kind in ("parameters", "groups", "group"):
            return Iteration(iter([self.parameter_of(value)]), f"parameters@{node}", is_data=False)
        if isinstance(value, Object) and value.instance is not None:
            made = self.iterate_instance(value, node)
            if made is not None:
                return self.iteration(made, node)
        return self._unknown_iteration(value, node)

    def elements_of(self, value: Value, node: ir.NodeId, limit: int | None) -> list[Value]:
        """The elements that a `for` over a value would see, at most `limit` of them."""
        return list(islice(self.iteration(value, node).elements, limit))

    def parameter_of(self, value: Opaque) -> Opaque:
        """The one parameter that stands for all of a group."""
        kind = "group" if value.kind == "groups" else "parameter"
        return Opaque(f"{value.path}[i]", modules=value.modules, kind=kind, source=value.source)

    def _range_iteration(self, value: RangeValue) -> Iteration:
        bounds = self.range_bounds(value)
        key = f"range@{value.node}"
        if bounds is not None:
            numbers = range(*bounds)
            if len(numbers) > LOOP_BUDGET:
                numbers = numbers[: 4 * self.knowledge.window]
            exact = not isinstance(value.stop, Opaque)
            if isinstance(value.stop, Opaque) and self.is_supposed(value.stop):
                self.range_stops[key] = value.stop
            return Iteration(iter(numbers), key, finite=exact)
        return Iteration(iter(self.unknown_range(value)), key, finite=False)

    def unknown_range(self, value: RangeValue) -> list[Value]:
        """The numbers of a range of unknown length: whole numbers, or unknown places that slice data."""
        key = f"range@{value.node}"
        length = self.length_of_key(key)
        if isinstance(value.stop, Opaque) and value.start == 0:
            self.range_stops[key] = value.stop
        step = self.as_number(value.step)
        whole = None if step is None else step.as_int()
        if whole == 1:
            start = self.as_number(value.start)
            first = 0 if start is None or start.as_int() is None else start.as_int() or 0
            return list(range(first, first + length))
        if isinstance(value.stop, Opaque) and isinstance(value.step, Opaque) and is_configured(value.stop):
            self._learn_from_size(value.stop, value.step)
            self._name_length(f"{value.stop.path} // {value.step.path}", length)
        mark = self._places()
        places: list[Value] = []
        for place in range(length):
            slot = ("place", key, place, mark)
            if slot not in self.slices:
                self.slices[slot] = self.new_atom("slice", 1)
            path = f"{path_of(value.start)} + {place} * {path_of(value.step)}"
            places.append(Opaque(path, frozenset({self.slices[slot]})))
        return places

    def _learn_from_size(self, stop: Opaque, step: Opaque) -> None:
        """`range(0, batch, batch // steps)` has as many slices as there are steps."""
        if step.parts is None or step.parts[0] != "//":
            return
        whole, steps = step.parts[1]
        if isinstance(whole, Opaque) and whole.path == stop.path and isinstance(steps, Opaque):
            self.learn_steps(steps)
            self.knowledge.lengths[f"slices of {stop.path}"] = self.knowledge.window

    def _name_length(self, path: str, length: int) -> None:
        """The number of slices, where the code works it out itself, is the number of microbatches of the loop."""
        self.knowledge.numbers[path] = Fraction(length)
        self.knowledge.factors.pop(path, None)
        self.knowledge.steps_paths.setdefault(path)

    def _unknown_iteration(self, value: Value, node: ir.NodeId) -> Iteration:
        key = self.key_of(value)
        if isinstance(value, Object) and self.is_loader(value):
            self.note_loader(key, value, node)
        endless = isinstance(value, (Opaque, Object)) and bool(_ENDLESS.search(value.path))
        endless = endless or (isinstance(value, Object) and self._streams(value.attributes.get("dataset")))
        around = self._places() if lineage_of(value) else None  # the parts of a batch are the same for each loop
        return Iteration(self._arrivals(value, key, around, endless=endless), key, finite=not endless)

    def _streams(self, data: Value) -> bool:
        """Whether a dataset of the file brings examples without end: `while True: yield ...` that nothing leaves."""
        owner = data.instance if isinstance(data, Object) else None
        member = self.find_member(owner, "__iter__") if owner is not None else None
        function = member.function if isinstance(member, FunctionValue) else None
        if not isinstance(function, ir.Function) or not function.is_generator:
            return False
        last = function.body[-1]
        if not isinstance(last, ir.While) or not isinstance(last.test, ir.Constant) or not last.test.value:
            return False
        return not any(isinstance(node, (ir.Break, ir.Return)) for node in walk(last.body))

    def _places(self) -> tuple[tuple[ir.NodeId, int], ...]:
        """Where the running loops are."""
        return tuple((loop.node, loop.iteration) for loop in self.loops)

    def note_loader(self, key: str, value: Object, node: ir.NodeId) -> None:
        """What the loader's own arguments say about the sizes of its batches."""
        drops = value.attributes.get("drop_last")
        collate = value.attributes.get("collate_fn")
        known = drops if isinstance(drops, bool) else None
        if not known and self._divides_evenly(value, node):
            known = True
        varies = collate.attributes.get("counts_vary") if isinstance(collate, Object) else None
        if isinstance(collate, FunctionValue) and collate.function.node >= FOREIGN and _fills(collate.function):
            varies = True  # in the checked file its text says so
        text = "" if collate is None else path_of(collate).partition("@")[0]
        self.trace.loaders[key] = Loader(known, text, value.node, varies if isinstance(varies, bool) else None)

    def _divides_evenly(self, loader: Object, node: ir.NodeId) -> bool:
        """Whether the code says how many examples there are, and that they make whole batches."""
        data, size = loader.attributes.get("dataset"), loader.attributes.get("batch_size")
        if type(size) is not int or size < 1 or loader.attributes.get("sampler") is not None:
            return False
        held: Value = len(data.items) if isinstance(data, Items) else None
        if isinstance(data, Object) and data.instance is not None:
            member = self.find_member(data.instance, "__len__")
            if isinstance(member, FunctionValue):
                held = self.call(replace(member, bound=data, is_bound=True), self.no_arguments(), node, None)
        return type(held) is int and held > 0 and held % size == 0

    def _arrivals(
        self, value: Value, key: str, around: tuple[tuple[ir.NodeId, int], ...] | None, *, endless: bool
    ) -> Iterator[Value]:
        """The elements of an unknown iterable. Within one iteration of the loops around it they are the same."""
        mark = self._places() if around is None else around
        base = lineage_of(value)
        if (
            base and self.comprehending and not self.is_window(key)
        ):  # parts of data that is here already, not new microbatches
            yield self._example_of(value, -1)
            return
        length = self.length_of_key(key)
        path = path_of(value)
        for place in range(length):
            slot = ("element", key, place, mark, max(base) if base else None)
            if slot not in self.slices:
                kind = "part" if isinstance(value, Opaque) and value.kind == "parts" else f"batch:{key}"
                self.slices[slot] = self.new_atom("next" if endless else kind, 1)
            facts = value.facts if isinstance(value, Opaque) else frozenset()
            yield Opaque(f"{path}[{place}]", base | {self.slices[slot]}, False, frozenset(), facts)

    def known_items(self, value: Value, limit: int = LOOP_BUDGET) -> list[Value] | None:
        """The elements of something whose length is known, or was given a length."""
        if isinstance(value, Items):
            return value.items
        if isinstance(value, Mapping):
            return list(value.items) if value.rest is None else None  # type: ignore[arg-type]
        if isinstance(value, RangeValue):
            bounds = self.range_bounds(value)
            if bounds is None:
                return self.unknown_range(value)
            return list(range(*bounds)[:limit])
        if isinstance(value, Stream):
            return [element for element, _ in zip(value.iterator, range(limit), strict=False)]
        return None

    def stream(self, value: Value, node: ir.NodeId) -> Stream:
        """`iter(value)`."""
        if isinstance(value, Stream):
            return value
        made = self.iteration(value, node)
        return Stream(made.elements, made.finite, made.key)

    def next_of(self, value: Value, default: Value, node: ir.NodeId, *, has_default: bool) -> Value:
        """`next(value)`; an exhausted iterator raises only where somebody catches it, else data goes on."""
        if not isinstance(value, Stream):
            path = f"next({path_of(value)})"
            of_element = any(atom.kind.startswith("batch:") for atom in lineage_of(value))
            lineage = lineage_of(value) | self.arrival("next of an element" if of_element else "next")
            return Opaque(path, lineage, node=node)
        self.streamed.add(value.key)
        caught = any({"StopIteration", "", "Exception"} & kinds for kinds in self.catching)
        for element in value.iterator:
            if not caught and not has_default and _STREAM.search(value.key) and isinstance(element, Opaque):
                return replace(element, lineage=self.arrival("next"))  # nobody expects its end
            return element
        self._note_exhausted(value)
        if has_default:
            return default
        if caught:
            raise Raised("StopIteration")
        return Opaque(f"next({value.key})", self.arrival("next"), node=node)

    def _note_exhausted(self, stream: Stream) -> None:
        """A finite loader that is read by hand has ended: the loop that reads it has had its last microbatch."""
        loop = next((loop for loop in self.enclosing() if loop.is_data), None)
        if loop is not None and stream.finite:
            self.trace.ends.append((len(self.trace.events), loop.node, stream.key))

    # -------------------------------------------------------------------------------------------- loops

    def exec_for(self, node: ir.For, frame: Frame) -> None:
        value = self.evaluate(node.iterable, frame)
        if isinstance(value, Opaque) and isinstance(node.target, ir.Display) and len(node.target.elements) == 2:
            value = self.wrapped.get(value.path, value)  # `for i, batch in Progress(enumerate(loader))`
        self.foresee_length(value, node)
        plan = self.iteration(value, node.node)
        if isinstance(value, Stream) and not value.finite and value.length is None:
            plan = self._left_by_test(plan, node.node)
        state = LoopState(node.node, plan.key, is_data=plan.is_data, finite=plan.finite)
        self.trace.loops[node.node] = self.trace.loops.get(node.node, 0)
        self.loops.append(state)
        broke = False
        try:
            for count, (element, is_last) in enumerate(_with_last(plan.elements)):
                if count > LOOP_BUDGET:
                    raise Stopped("a loop is too long to be followed")
                state.iteration, state.is_last = count, is_last
                self.assign(node.target, element, frame)
                try:
                    self.execute(node.body, frame)
                except ContinueLoop:
                    pass
                except BreakLoop:
                    broke = True
                    break
        finally:
            self.loops.pop()
        self.learn_early(state)
        if not broke:
            if plan.finite and plan.is_data:
                self.trace.ends.append((len(self.trace.events), node.node, plan.key))
            self.execute(node.orelse, frame)

    def _left_by_test(self, plan: Iteration, node: ir.NodeId) -> Iteration:
        """An endless iterator: a loop over it is one that a test inside ends, as `while True` is."""
        key = f"while@{node}"
        limit = self.knowledge.lengths.setdefault(key, 2 * self.knowledge.window + 2)
        return Iteration(islice(plan.elements, limit), key, finite=False, is_data=plan.is_data)

    def exec_while(self, node: ir.While, frame: Frame) -> None:
        key = f"while@{node.node}"
        state = LoopState(node.node, key, finite=False)
        self.loops.append(state)
        broke = False
        try:
            for count in range(LOOP_BUDGET + 1):
                state.iteration = count
                if not self._goes_on(node, frame, state, count):
                    break
                if count == LOOP_BUDGET:
                    raise Stopped("a loop is too long to be followed")
                try:
                    self.execute(node.body, frame)
                except ContinueLoop:
                    pass
                except BreakLoop:
                    broke = True
                    break
        finally:
            self.loops.pop()
        if not broke:
            self.execute(node.orelse, frame)

    def _goes_on(self, node: ir.While, frame: Frame, state: LoopState, count: int) -> bool:
        test = self.evaluate(node.test, frame)
        truth = self.truth(test)
        if isinstance(node.test, ir.Constant) and truth:
            limit = self.knowledge.lengths.setdefault(state.key, 2 * self.knowledge.window + 2)
            return count < limit
        if truth is not None:
            return truth and not (count >= max(LONG, 4 * self.knowledge.window) and self._trained_in(state))
        if isinstance(test, Opaque) and test.wants:  # `while micro < accum`: a range of as many
            self.range_stops[state.key] = test.wants[0][0]
        if state.key not in self.knowledge.lengths and not self.setting_up:
            self.knowledge.lengths[state.key] = self.foreseen_length(state.key, node.body)
        limit = self.length_of_key(state.key)
        state.is_last = count == limit - 1
        return count < limit

    def _trained_in(self, state: LoopState) -> bool:
        """Whether backwards and steps were run in a loop."""
        inside = {event.kind for event in self.trace.events if any(node == state.node for node, _ in event.loops)}
        return {BACKWARD, STEP} <= inside

    # ---------------------------------------------------------------------------------- comprehensions

    def eval_comprehension(self, node: ir.Comprehension, frame: Frame) -> Value:
        inner = Frame("<comprehension>", frame)
        results: list[tuple[Value, Value]] = []
        self.comprehending += 1
        try:
            exact = self._comprehend(node, 0, inner, results)
        finally:
            self.comprehending -= 1
        if node.kind == "dict":
            return self._dict_of(results, exact=exact)
        values = [element for element, _ in results]
        if exact:
            return Items("list" if node.kind == "generator" else node.kind, values, self._kept_key(node, frame))
        if len(values) == 1 and isinstance(values[0], Opaque):
            only = values[0]
            kind = only.kind if only.kind == "mask" else "parameters" if only.kind == "parameter" else ""
            return Opaque(
                f"[{only.path} ...]", only.lineage, only.gradient, only.modules, only.facts, node.node, kind=kind
            )
        return Items("list", values) if values else Items("list", [])

    def _kept_key(self, node: ir.Comprehension, frame: Frame) -> str:
        """A list made element by element from another has that list's length."""
        if len(node.clauses) != 1 or node.clauses[0].conditions:
            return ""
        return f"comprehension@{node.node}"

    def _comprehend(self, node: ir.Comprehension, depth: int, frame: Frame, results: list[tuple[Value, Value]]) -> bool:
        """Collect the elements; False if they came from something of unknown length, of which one was taken."""
        if depth == len(node.clauses):
            element = self.evaluate(node.element, frame)
            results.append((element, self.evaluate(node.value, frame) if node.value is not None else None))
            return True
        clause = node.clauses[depth]
        source = self.evaluate(clause.iterable, frame)
        items = self.known_items(source)
        exact = items is not None
        if isinstance(source, RangeValue) and items is not None and depth == 0 and not clause.conditions:
            self.listed[f"range@{source.node}"] = len(items)
        if items is None and isinstance(source, Opaque) and source.lineage and self.is_window(self.key_of(source)):
            items, exact = self.elements_of(source, node.node, None), True
        if items is None:
            items = [self._example_of(source, node.node)]
        for item in items[:LOOP_BUDGET]:
            self.spend()
            self.assign(clause.target, item, frame)
            if all(self.truth(self.evaluate(test, frame)) is not False for test in clause.conditions):
                exact &= self._comprehend(node, depth + 1, frame, results)
        return exact

    def _example_of(self, source: Value, node: ir.NodeId) -> Value:
        """One element of an unknown collection, standing for all: it derives from the same data."""
        if isinstance(source, Opaque) and source.kind in ("parameters", "groups", "group"):
            return self.parameter_of(source)
        result = self.opaque(f"{path_of(source)}[i]", source, node=node)
        if isinstance(source, Opaque):
            return Opaque(result.path, result.lineage, source.gradient, source.modules, source.facts, node)
        return result

    def _dict_of(self, results: list[tuple[Value, Value]], *, exact: bool) -> Mapping:
        made = Mapping({})
        for key, value in results:
            if exact and isinstance(key, (str, int, float, bool, bytes, type(None))):
                made.items[key] = value
            else:
                made.rest = value
        return made


def _fills(function: ir.Function | ir.Lambda) -> bool:
    """Whether a collate function fills something with -100, and does not only compare with it."""
    compared = {part.node for node in walk(function) if isinstance(node, ir.Compare) for part in node.comparators}
    return any(
        isinstance(node, ir.Unary)
        and node.operator == "-"
        and isinstance(node.operand, ir.Constant)
        and node.operand.value == 100
        and node.node not in compared
        for node in walk(function)
    )


def _with_last(elements: Iterator[Value]) -> Iterator[tuple[Value, bool]]:
    """Each element with whether it is the last."""
    try:
        held = next(elements)
    except StopIteration:
        return
    for element in elements:
        yield held, False
        held = element
    yield held, True
