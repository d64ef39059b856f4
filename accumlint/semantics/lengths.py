"""How long unknown loops are: foreseen from their text, learned from what a run shows happening in them."""

from __future__ import annotations

import re
from fractions import Fraction

from accumlint.reading import ir
from accumlint.reading.prefilter import BACKWARDS
from accumlint.reading.walk import all_statements, called_name
from accumlint.semantics.knowledge import LoopState, LoopUse, Restart, is_configured, wanted_length
from accumlint.semantics.machine import collection_of
from accumlint.semantics.numbers import Num
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.statements import Statements
from accumlint.semantics.summaries import nodes_of
from accumlint.semantics.values import Object, Opaque, RangeValue, Stream, Value, path_of

FIRST_LENGTH = 3
"""How many elements an unknown iterable has before it is known what the loop over it does."""
_LOADER = re.compile(r"loader", re.I)


class Lengths(Statements):
    """Gives unknown loops their lengths."""

    def length_of_key(self, key: str, *, bounded: bool = True) -> int:
        """How many elements an unknown iterable has in this run."""
        key = self.knowledge.tied.get(key, key)
        if key not in self.knowledge.lengths:
            # whoever asks first: a loader is most often what the training loop is over
            loader = _LOADER.search(key) is not None and not self.setting_up
            self.knowledge.lengths[key] = 2 * self.knowledge.window + 2 if loader else FIRST_LENGTH
        return self.cut_into.get(key) or self.knowledge.lengths[key]

    def range_bounds(self, value: RangeValue) -> tuple[int, int, int] | None:
        """The bounds of a range whose length is known."""
        step = self.as_number(value.step)
        whole_step = None if step is None else step.as_int()
        start = self.as_number(value.start)
        whole_start = start.as_int() if start is not None else 0 if isinstance(value.start, Opaque) else None
        if whole_step is None or whole_step == 0 or whole_start is None:
            return None
        stop = self._range_stop(value.stop)
        return None if stop is None else (whole_start, stop, whole_step)

    def _range_stop(self, stop: Value) -> int | None:
        known = None if self.is_factor(stop) else self.as_number(stop)
        if known is None and isinstance(stop, Opaque):
            known = self._factored(stop)
        if known is None:
            return None
        if not known.is_constant:
            return None
        whole = known.as_int()
        return whole if whole is not None else int(known.constant)

    def _factored(self, stop: Opaque) -> Num | None:
        """`updates * accum` with a known accum: the unknown factor is the number of windows."""
        if stop.parts is None or stop.parts[0] != "*":
            return None
        open_parts = [p for p in stop.parts[1] if isinstance(p, Opaque) and self.as_number(p) is None]
        if len(open_parts) != 1 or not is_configured(open_parts[0]):
            return None
        self.knowledge.numbers.setdefault(open_parts[0].path, Fraction(2))
        return self.as_number(stop)

    def key_of(self, value: Value) -> str:
        if isinstance(value, Object):
            return f"{value.canonical or 'object'}@{value.path}"
        return f"elements of {path_of(value)}"

    def foresee_length(self, value: Value, node: ir.For) -> None:
        """A loop that trains, by its text, is given at once the length that shows it: no run is spent on learning it.

        What the run then shows corrects the length, as it does for other loops."""
        self._learn_stride(value, node)
        key = "" if self.setting_up else self._key_of_unknown(value)
        trains = bool(key) and not self.program.relevance.words(node.body).isdisjoint(BACKWARDS)
        if trains and isinstance(value, RangeValue) and isinstance(value.stop, Num):
            self._learn_drawn(value.stop)
        number = self.pieces.get(key)
        if trains and number is not None:  # `batch.chunk(number)`: each part is a microbatch
            if not self.learns_here(number, self.spent):
                self.learn_steps(number)
            self.cut_into.setdefault(key, self.knowledge.steps)
        if not key or key in self.knowledge.foreseen or key in self.knowledge.tied:
            return
        self.knowledge.foreseen[key] = None
        guessed = self.knowledge.lengths.get(key)
        if guessed is None or trains:
            self.knowledge.lengths[key] = wanted = self.foreseen_length(key, node.body)
            if guessed not in (None, wanted):
                raise Restart  # somebody has asked for the length before

    def _learn_drawn(self, stop: Num) -> None:
        """`for i in range(len(batches))` over shuffled data that was cut before: a microbatch is what has a place."""
        data = self.sized.get(stop.text)
        if data is not None and collection_of(data) not in self.knowledge.windows:
            self.knowledge.windows[collection_of(data)] = None
            self.knowledge.lengths[data] = 2 * self.knowledge.window + 2
            raise Restart

    def _learn_stride(self, value: Value, node: ir.For) -> None:
        """`for start in range(0, len(batches), K)` around a loop that trains: a list is cut into windows."""
        if self.setting_up or not isinstance(value, RangeValue) or not isinstance(value.step, Opaque):
            return
        words = self.program.relevance.words(node.body)
        if words.isdisjoint(BACKWARDS) or "step" not in words or not _trains_inside(node.body, self.program.relevance):
            return
        if is_configured(value.step) and _hangs_on(value.stop, value.step.path) and self.is_open(value.step):
            self.learn_steps(value.step)
        for key, length in self.listed.items():
            if length == value.stop and self.knowledge.lengths.get(key) == FIRST_LENGTH:
                self.knowledge.lengths[key] = 2 * self.knowledge.window + 2
                raise Restart

    def foreseen_length(self, key: str, body: tuple[ir.Statement, ...]) -> int:
        """The length that an unknown loop will be given when it is known what happens in it, by its text."""
        relevance = self.program.relevance
        words = relevance.words(body)
        if words.isdisjoint(BACKWARDS) or "step" not in words:
            return FIRST_LENGTH
        inner = _trains_inside(body, relevance)
        use = LoopUse(direct_backward=not inner, any_backward=True, any_step=True)
        brings = bool(inner) and not key.startswith("range@") and _collects(body, inner)
        self.knowledge.lengths.setdefault(key, FIRST_LENGTH)
        return wanted_length(key, use, self.knowledge, brings=brings) or FIRST_LENGTH

    def _key_of_unknown(self, value: Value) -> str:
        """The key of what a loop runs over if its length is not known, else ""."""
        if isinstance(value, RangeValue):
            return f"range@{value.node}" if self.range_bounds(value) is None else ""
        if isinstance(value, Stream):
            return value.key if value.finite and value.length is None else ""
        if isinstance(value, Opaque) and value.kind not in ("parameters", "groups", "group"):
            return self.key_of(value)
        return self.key_of(value) if isinstance(value, Object) and value.instance is None else ""

    def learn_early(self, ended: LoopState) -> None:
        """Once an unknown loop has shown that it trains, a run whose loops have other lengths need not be ended."""
        use = self.uses.get(ended.key)
        if use is None or not (use.any_backward and use.any_step) or not self.loops or self.setting_up:
            return
        lengths, changed = self.knowledge.lengths, False
        for loop in (ended, *self.loops):
            use = self.uses.get(loop.key)
            if use is not None and lengths.get(loop.key) == FIRST_LENGTH:
                wanted = wanted_length(loop.key, use, self.knowledge, brings=self.brings_microbatches(loop.key))
                changed |= wanted not in (None, FIRST_LENGTH)
                lengths[loop.key] = wanted or FIRST_LENGTH
        if changed:
            raise Restart


def _collects(body: tuple[ir.Statement, ...], loops: list[ir.For | ir.While]) -> bool:
    """Whether a body puts things into a list beside the inner loops that train: it fills a window for them."""
    within = {part.node for loop in loops for each in loop.body for part in nodes_of(each) if isinstance(part, ir.Call)}
    calls = (part for each in body for part in nodes_of(each) if isinstance(part, ir.Call))
    return any(called_name(call) in ("append", "extend") and call.node not in within for call in calls)


def _trains_inside(body: tuple[ir.Statement, ...], relevance: Relevance) -> list[ir.For | ir.While]:
    """The inner loops of a body that reach a backward."""
    loops = [each for each in all_statements(body, into_scopes=False) if isinstance(each, (ir.For, ir.While))]
    return [loop for loop in loops if not relevance.words(loop.body).isdisjoint(BACKWARDS)]


def _hangs_on(value: Value, path: str) -> bool:
    """Whether a number would be known if the unknown of that path were."""
    if isinstance(value, Opaque):
        return value.path == path or (value.parts is not None and all(_hangs_on(part, path) for part in value.parts[1]))
    return type(value) is int
