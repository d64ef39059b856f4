"""Library calls: their operands, their conditions, and the effects of their rows in order."""

from __future__ import annotations

import re
from dataclasses import replace
from fractions import Fraction
from typing import Any

from accumlint.apis import language as api
from accumlint.apis.signature import Default
from accumlint.reading import ir
from accumlint.semantics.calls import Calls
from accumlint.semantics.numbers import Num, number
from accumlint.semantics.values import (
    Canonical,
    Context,
    Items,
    LibraryCall,
    Mapping,
    Object,
    Opaque,
    Value,
    facts_of_all,
    path_of,
)

WORLD, PAIR = Fraction(5), Fraction(2)
COUPLED_NAME = re.compile(
    r"info_?nce|nt_?xent|simclr|contrastive|clip_?loss|in_?batch|supcon|dice|tversky|iou_?loss|barlow|vicreg"
    r"|\bcox|mmd_?loss|batch_?hard",
    re.I,
)
"""Names of losses that couple the examples of a batch."""
NOTHING = object()
_PLAIN = (bool, int, float, str, type(None))


class Operands(Calls):
    """Binds and applies the rows of the tables."""

    def operand(self, operand: api.Operand, call: LibraryCall) -> Value:
        if isinstance(operand, api.Arg):
            return self._argument(operand.name, call)
        if isinstance(operand, api.Receiver):
            return call.receiver
        if isinstance(operand, api.Const):
            return operand.value
        if isinstance(operand, api.Ranks):
            return self.world()
        if isinstance(operand, api.Attr):
            return self._attribute_of(call.receiver, operand.name, call.node)
        if isinstance(operand, api.Part):
            owner = call.receiver if isinstance(call.receiver, Object) else None
            name = f"{path_of(owner)}.{operand.canonical.rpartition('.')[2]}"
            return Object(name, self.program.registry.role_of(operand.canonical), operand.canonical, owner=owner)
        if isinstance(operand, api.Window):
            return self._of_window(operand, call)
        if isinstance(operand, api.ArgAttr):
            return self._part_of_argument(operand, call)
        owner = call.receiver.owner if isinstance(call.receiver, Object) else None
        if isinstance(operand, api.Owner):
            return owner
        return Opaque("owner") if owner is None else self._attribute_of(owner, operand.name, call.node)

    def _attribute_of(self, value: Value, name: str, node: ir.NodeId) -> Value:
        for part in name.split("."):
            value = self.get_attribute(value, part, node)
        return value

    def _of_window(self, operand: api.Window, call: LibraryCall) -> Value:
        """Where a driven method is in its window; unknown anywhere else."""
        loop = next((loop for loop in self.enclosing() if loop.driven), None)
        every = self.operand(operand.every, call)
        if loop is None:
            return Opaque(f"{operand.what} of the window")
        if operand.what == "last":
            return loop.is_last
        known = self.as_number(every)
        if isinstance(every, Opaque) and self.is_open(every):
            self.learn_steps(every)
        whole = None if known is None else known.as_int()
        if known is None or not whole:
            return Opaque(f"{operand.what} of the window")
        begin = loop.iteration // whole * whole
        size = min(whole, loop.driven - begin)
        if operand.what == "ends":
            return loop.iteration + 1 == begin + size
        return known if size == whole else number(size)

    def _argument(self, name: str, call: LibraryCall) -> Value:
        value = call.bound.get(name)
        if isinstance(value, Opaque):
            return value
        if isinstance(value, Default):
            plain = value.value
            return plain if isinstance(plain, _PLAIN) else Opaque(str(plain))
        if isinstance(value, tuple):
            return Items("tuple", list(value))
        return value  # type: ignore[return-value]

    def _part_of_argument(self, operand: api.ArgAttr, call: LibraryCall) -> Value:
        value = self._argument(operand.name, call)
        if isinstance(value, Mapping):
            if operand.attribute in value.items:
                return value.items[operand.attribute]
            return value.rest if value.rest is not None else 1
        if value is None:
            return Opaque(f"{operand.name}.{operand.attribute}")
        return self.get_attribute(value, operand.attribute, call.node)

    def world(self) -> Num:
        self.trace.world = number(PAIR if self.program.paired else WORLD, "world size", frozenset({"world size"}))
        return self.trace.world

    def holds(self, condition: api.Condition, call: LibraryCall) -> bool:
        value = self.operand(condition.operand, call)
        if isinstance(value, Opaque):
            known = self.as_number(value)
            if known is None:
                return condition.unknown
            value = known
        if isinstance(value, Canonical):
            value = self.program.registry.canonical(value.name)
        if isinstance(value, Num) and isinstance(condition.value, (int, float)):
            whole = value.as_int()
            answer = whole is not None and whole == condition.value
        elif isinstance(value, _PLAIN) or condition.value is None:
            answer = value is None if condition.value is None else value == condition.value
        else:
            return condition.unknown
        return answer != condition.negated

    # ------------------------------------------------------------------------------------------ applying

    def is_context(self, row: api.Row) -> bool:
        return row.turns_gradients_off

    def enter(self, context: Context) -> Value:
        value = self.apply(context.call)
        return value if value is not None else context.call.receiver

    def leave(self, context: Context) -> None:
        self._run(context.call.row.undo, context.call)

    def apply(self, call: LibraryCall) -> Value:
        """Run the effects of a row in order; at most one of them yields the value of the call."""
        for text in call.row.assumes:
            self.assume(text)
        if call.row.turns_gradients_off:
            self.no_grad += 1
            return None
        yielded = self._run(call.row.does, call)
        if yielded is NOTHING:
            arguments = [v for v in call.bound.values() if not isinstance(v, (Default, tuple, dict))]
            sources: list[Any] = [call.receiver, *arguments]
            self.note_logged("", call.row.call, [s for s in sources if s is not None], call.node)
            name = call.row.call.rpartition(".")[2]
            text = f"{path_of(call.receiver)}.{name}" if call.receiver is not None else name
            result = self.opaque(f"{text}({', '.join(path_of(s) for s in sources[1:])})", *sources, node=call.node)
            facts = facts_of_all(sources)
            return replace(result, facts=facts) if facts else result
        return yielded  # type: ignore[no-any-return]

    def _run(self, effects: tuple[api.Effect, ...], call: LibraryCall) -> Any:
        result: Any = NOTHING
        for effect in effects:
            if not effect.when or all(self.holds(condition, call) for condition in effect.when):
                value = self.handle(effect, call)
                if value is not NOTHING:
                    result = value
        return result

    def perform_setter(self, row: api.Row, receiver: Value, value: Value, node: ir.NodeId) -> None:
        self._run(row.does, LibraryCall(row, receiver, {"value": value}, node))
