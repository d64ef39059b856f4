"""Iterators that library calls make: enumerate, zip, islice, cycle, chain, batched."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace

from accumlint.apis import language as api
from accumlint.apis.signature import Default
from accumlint.reading import ir
from accumlint.semantics.arithmetic import constant
from accumlint.semantics.machine import LOOP_BUDGET
from accumlint.semantics.objects import Objects
from accumlint.semantics.operands import NOTHING
from accumlint.semantics.values import (
    Items,
    LibraryCall,
    Object,
    Opaque,
    RangeValue,
    Stream,
    Value,
    carries_gradient,
    facts_of,
    lineage_of,
    modules_of,
    path_of,
)


class Iterators(Objects):
    """Makes iterators."""

    def iterate(self, effect: api.Iterate, call: LibraryCall) -> Value:
        operands = [self.operand(operand, call) for operand in effect.operands]
        listed = operands[0] if len(operands) == 1 else None
        written = effect.operands[0] if effect.operands else None
        if isinstance(listed, Items) and isinstance(written, api.Arg) and written.name.startswith("*"):
            operands = list(listed.items)
        start = self.operand(effect.start, call) if effect.start is not None else 0
        stop = self.operand(effect.stop, call) if effect.stop is not None else None
        return self.iterator(effect.kind, operands, start, stop, call)

    def iterator(self, kind: str, operands: list[Value], start: Value, stop: Value, call: LibraryCall) -> Value:
        node = call.node
        first, start, stop = operands[0] if operands else None, constant(start), constant(stop)
        if kind == "pass":
            return first
        if kind == "reversed":
            return self._reversed(first, node)
        if kind == "count":
            return self._counted(start, stop, node)
        if kind == "range":
            return RangeValue(0, first, 1, node)
        if kind == "iter":
            return self.stream(first, node)
        if kind == "next":
            default = call.bound.get("default", NOTHING)
            has_default = not isinstance(default, Default) and default is not NOTHING
            return self.next_of(first, default if has_default else None, node, has_default=has_default)  # type: ignore[arg-type]
        if kind == "enumerate":
            return self._enumerate(first, start, node)
        if kind == "zip":
            return self._zip(operands, node)
        if kind == "islice":
            return self._islice(first, start, stop, node)
        if kind in ("cycle", "repeat"):
            return self._cycle(first, node)
        if kind == "chain":
            return self._chain(operands, node)
        if kind == "batched":
            return self._batched(first, stop, node)
        if kind == "pieces":
            return self._pieces(first, stop, node)
        if kind == "split":
            return self._parts(first, f"{path_of(first)}.split({path_of(stop)})", node)
        return self.opaque(kind, *operands, node=node)

    def _reversed(self, value: Value, node: ir.NodeId) -> Value:
        """Known items from the last to the first; of an unknown sequence nothing is known but where it came from."""
        if isinstance(value, Items):
            return Items("list", value.items[::-1], value.key)
        if isinstance(value, RangeValue):
            numbers = list(self.iteration(value, node).elements)
            finite = not isinstance(value.stop, Opaque)
            return Stream(iter(numbers[::-1]), finite, f"range@{value.node}", len(numbers))
        return value

    def _counted(self, start: Value, step: Value, node: ir.NodeId) -> Value:
        """`itertools.count()`: the loop over it ends by a test inside it, if at all."""
        first, by = self.as_number(start), self.as_number(step)
        whole = None if first is None else first.as_int()
        numbers = itertools.count(whole or 0, (by.as_int() or 1) if by is not None else 1)
        return Stream(numbers, False, f"count@{node}")

    def _enumerate(self, value: Value, start: Value, node: ir.NodeId) -> Value:
        inner = self.stream(value, node)
        first = self.as_number(start)
        offset = (first.as_int() or 0) if first is not None else 0
        pairs = (Items("tuple", [offset + place, item]) for place, item in enumerate(inner.iterator))
        length = len(value.items) if isinstance(value, Items) else inner.length
        return Stream(pairs, inner.finite, inner.key, length, counted=True)

    def _zip(self, values: list[Value], node: ir.NodeId) -> Value:
        streams = [self.stream(value, node) for value in values]
        finite = [stream for stream in streams if stream.finite]
        key = finite[0].key if finite else (streams[0].key if streams else f"zip@{node}")
        for value, stream in zip(values, streams, strict=True):
            unknown = stream.finite and stream.length is None and isinstance(value, (Opaque, Object))
            if unknown and finite[0].length is None and stream.key != key and key not in self.knowledge.tied:
                self.knowledge.tied[stream.key] = key
        tuples = (Items("tuple", list(items)) for items in zip(*(s.iterator for s in streams), strict=False))
        known = [stream.length for stream in streams if stream.length is not None]
        return Stream(tuples, bool(finite), key, min(known, default=None))

    def _islice(self, value: Value, start: Value, stop: Value, node: ir.NodeId) -> Value:
        inner = self.stream(value, node)
        count = self.steps_number(stop)
        whole = count.as_int() if count is not None else None
        if whole is None:
            return inner
        self.streamed.add(inner.key)
        skipped = self.as_number(start)
        skip = (skipped.as_int() or 0) if skipped is not None else 0

        def taken() -> Iterator[Value]:
            for place in range(whole):
                try:
                    element = next(inner.iterator)
                except StopIteration:
                    return
                if place >= skip:
                    yield element

        return Stream(taken(), inner.finite, f"islice@{node}", whole)

    def _cycle(self, value: Value, node: ir.NodeId) -> Value:
        def endless() -> Iterator[Value]:
            while True:
                made = self.iteration(value, node)
                empty = True
                for element in made.elements:
                    empty = False
                    yield element
                if empty:
                    return

        return Stream(endless(), False, f"cycle@{node}")

    def _chain(self, values: list[Value], node: ir.NodeId) -> Value:
        def linked() -> Iterator[Value]:
            for value in values:
                yield from self.iteration(value, node).elements

        if any(isinstance(value, Opaque) and value.kind == "parameters" for value in values):
            modules = frozenset().union(*(modules_of(value) for value in values))
            return Opaque("chain of parameters", modules=modules, kind="parameters", node=node)
        return Stream(linked(), True, f"chain@{node}")

    def _pieces(self, value: Value, number: Value, node: ir.NodeId) -> Value:
        """`batch.chunk(4)`: a tuple of so many parts, which become microbatches where a loop runs over them."""
        count = self.number_for_now(number)
        whole = count.as_int() if count is not None else None
        parts = self._parts(value, f"{path_of(value)}.chunk({path_of(number)})", node)
        if isinstance(number, Opaque) and lineage_of(value) and not carries_gradient(value):
            self.pieces[self.key_of(parts)] = number
        if whole is not None and 0 < whole <= LOOP_BUDGET:
            self.cut_into[self.key_of(parts)] = whole
        return parts

    def _parts(self, value: Value, path: str, node: ir.NodeId) -> Opaque:
        return replace(self.opaque(path, value, node=node), facts=facts_of(value), kind="parts")

    def _batched(self, value: Value, size: Value, node: ir.NodeId) -> Value:
        inner = self.stream(value, node)
        count = self.steps_number(size)
        whole = (count.as_int() if count is not None else None) or self.knowledge.window
        self.streamed.add(inner.key)

        def groups() -> Iterator[Value]:
            while True:
                group = [element for element, _ in zip(inner.iterator, range(whole), strict=False)]
                if not group:
                    return
                yield Items("tuple", group, f"batched@{node}")

        return Stream(groups(), inner.finite, f"batched@{node}")
