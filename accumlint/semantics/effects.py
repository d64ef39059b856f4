"""What each effect of a row does: one handler an effect, and no library's name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from accumlint.apis import language as api
from accumlint.reading import ir
from accumlint.semantics.calls import Arguments
from accumlint.semantics.iterators import Iterators
from accumlint.semantics.machine import LoopState
from accumlint.semantics.numbers import ONE, Num, combine, over_pairs
from accumlint.semantics.operands import NOTHING
from accumlint.semantics.trace import COLLECT
from accumlint.semantics.values import (
    Fact,
    Form,
    FunctionValue,
    Items,
    LibraryCall,
    Object,
    Opaque,
    Value,
    carries_gradient,
    facts_of,
    lineage_of,
    path_of,
)

_SHAPING = frozenset({"view", "reshape", "flatten", "transpose", "permute", "squeeze", "view_as"})


class Effects(Iterators):
    """Counts, reductions and arithmetic that library calls spell out; and the table of all handlers."""

    def handle(self, effect: api.Effect, call: LibraryCall) -> Any:
        return HANDLERS[type(effect)](self, effect, call)

    def counts(self, effect: api.Counts, call: LibraryCall) -> Value:
        target = self.operand(effect.of, call)
        return self.size_of(target, f"{path_of(target)}.{call.row.call.rpartition('.')[2]}()")

    def draw(self, effect: api.Draw, call: LibraryCall) -> Value:
        lineage = self.arrival("random", rank=-1)
        if effect.like is not None:
            lineage |= lineage_of(self.operand(effect.like, call))
        return Opaque(f"{call.row.call.rpartition('.')[2]}()", lineage, node=call.node)

    def world_size(self, effect: api.WorldSize, call: LibraryCall) -> Value:
        size = self.world()
        return Items("tuple", [size, Opaque("rank", node=call.node)]) if effect.and_rank else size

    def reduce(self, effect: api.Reduce, call: LibraryCall) -> Value:
        target = self.operand(effect.operand, call)
        if isinstance(target, Items):
            return self._reduced_items(target, effect.kind, call.node)
        return self.reduced(target, effect.kind, call.node)

    def _reduced_items(self, target: Items, kind: str, node: ir.NodeId) -> Value:
        """`torch.stack(values).sum()` over values that are known one by one."""
        plain = all(self.as_number(item) is not None or isinstance(item, Form) for item in target.items)
        if not plain or not target.items or any(isinstance(i, Form) and i.is_elementwise for i in target.items):
            whole = self.opaque("stack", target, node=node)
            return self.reduced(replace(whole, facts=facts_of(target)), kind, node)
        total = target.items[0]
        for item in target.items[1:]:
            total = self.binary("+", total, item, node)
        return total if kind == "sum" else self.binary("/", total, len(target.items), node)

    def copied(self, effect: api.Copy, call: LibraryCall) -> Value:
        """`deepcopy(model)`: another module. Data and numbers are what they were."""
        target = self.operand(effect.operand, call)
        if isinstance(target, Object):
            return self._copy_of(target, call.node)
        if isinstance(target, Opaque) and not target.lineage:
            path = self.distinct(f"copy of {target.path}@{call.node}")
            return replace(target, path=path, node=call.node, modules=frozenset(), parts=None)
        return target

    def _copy_of(self, target: Object, node: ir.NodeId, depth: int = 3) -> Object:
        """A copy of a thing and of the modules that it is made of."""
        path = self.distinct(f"copy of {target.path}@{node}")
        modules = frozenset({path}) if target.modules else target.modules
        made = replace(target, path=path, attributes=dict(target.attributes), modules=modules, node=node)
        for name, part in target.attributes.items():
            if isinstance(part, Object) and part.role is api.Role.MODEL and depth:
                made.attributes[name] = self._copy_of(part, node, depth - 1)
        self.objects[path] = made
        return made

    def all_reduce(self, effect: api.AllReduce, call: LibraryCall) -> Any:
        target = self.operand(effect.operand, call)
        known = self.as_number(target)
        if known is None:
            return target if effect.yields else None
        self.trace.reduced = True
        if self.program.paired:
            self.world()
            self.emit(COLLECT, call.node, by=known, detail="mean" if effect.mean else "sum")
            summed: Num | None = over_pairs(known, mean=effect.mean)
        else:
            summed = combine("*", known, ONE if effect.mean else self.world())
        if summed is None:
            return NOTHING
        summed = replace(summed, unknowns=summed.unknowns | {"all-reduced"}, text=f"all-reduced {known.text}")
        if effect.yields:
            return summed
        if isinstance(effect.operand, api.Arg) and call.frame is not None:
            written = call.written.get(effect.operand.name)
            if written is not None:
                self.assign(written, summed, call.frame)
        return None

    def detached(self, value: Value) -> Value:
        if isinstance(value, Form):
            return replace(value, detached=True)
        if isinstance(value, Opaque):
            return replace(value, gradient=False)
        return value

    def same(self, effect: api.Same, call: LibraryCall) -> Value:
        value = self.operand(effect.operand, call)
        if isinstance(value, Opaque):
            name = call.row.call.rpartition(".")[2]
            if name in _SHAPING:
                return replace(value, path=f"{value.path}.{name}", node=call.node)
        return value

    def arithmetic(self, effect: api.Arithmetic, call: LibraryCall) -> Value:
        left, right = self.operand(effect.left, call), self.operand(effect.right, call)
        if effect.operator in ("==", "!=", "<", "<=", ">", ">="):
            return self.compared(effect.operator, left, right, call.node)
        result = self.binary(effect.operator, left, right, call.node)
        return self._changed_in_place(call, result) if effect.in_place else result

    def clamp(self, effect: api.Clamp, call: LibraryCall) -> Value:
        value = self.operand(effect.operand, call)
        known = self.as_number(value)
        if known is None:
            return replace(value, node=call.node) if isinstance(value, Opaque) else value
        for operand, word in ((effect.low, "max"), (effect.high, "min")):
            bound = None if operand is None else self._bound(self.operand(operand, call))
            if bound is not None:
                known = combine(word, known, bound) or known
        return known

    def _bound(self, value: Value) -> Num | None:
        """A bound as a number; `torch.ones_like(count)` is one in every place."""
        ones = isinstance(value, Opaque) and value.path.startswith("ones_like(")
        return ONE if ones else self.as_number(value)

    def select(self, effect: api.Select, call: LibraryCall) -> Value:
        value, mask = self.operand(effect.of, call), self.operand(effect.by, call)
        fact = Fact("selection", call.node, path_of(mask))
        if isinstance(value, Form) and value.is_elementwise:
            return self.with_fact(value, fact)
        taken = self.opaque(f"{path_of(value)}[{path_of(mask)}]", value, mask, node=call.node)
        return replace(taken, gradient=taken.gradient and carries_gradient(value), facts=facts_of(value) | {fact})

    def exempt(self, effect: api.Exempt, call: LibraryCall) -> Any:
        self.trace.exempt = self.trace.exempt or effect.reason
        return NOTHING

    def set_mode(self, effect: api.SetMode, call: LibraryCall) -> Any:
        answer = self.truth(self.operand(effect.training, call))
        for name in self.module_names(self.operand(effect.model, call)):
            self.modes[name] = answer is not False
        return NOTHING

    def call_hook(self, effect: api.Hook, call: LibraryCall) -> Any:
        receiver = call.receiver
        owner = receiver.instance if isinstance(receiver, Object) else None
        member = None if owner is None else self.find_member(owner, effect.method)
        if isinstance(member, FunctionValue):
            bound = self.bind_method(member, receiver)
            self.call(bound, Arguments([self.operand(effect.argument, call)]), call.node, call.frame)
        return NOTHING

    def drive(self, effect: api.Drive, call: LibraryCall) -> Any:
        """Run a step function of the user's as its engine does, over whole windows and a partial one."""
        function = self.operand(effect.function, call)
        if not isinstance(function, FunctionValue) or self.setting_up or not isinstance(function.function, ir.Function):
            return NOTHING
        if "backward" not in self.program.relevance.words(function.function.body):
            return NOTHING
        self.trace.guessed = True
        loop = LoopState(call.node, "driver", is_data=True, finite=False)
        self.loops.append(loop)
        owners, _, counter = effect.counter.rpartition(".")
        engine = holder = Object(f"engine@{call.node}")
        for name in owners.split("."):
            holder.attributes[name] = held = Object(f"{holder.path}.{name}")
            holder = held
        try:
            for turn in range(2 * self.knowledge.window + 1):
                loop.iteration = turn
                holder.attributes[counter] = turn + 1
                arguments = self.no_arguments()
                arguments.positional += [engine, Opaque(f"batch#{turn}", self.arrival("call"))]
                self.call(function, arguments, call.node, call.frame)
        finally:
            self.loops.pop()
        return NOTHING

    def forget(self, effect: api.Forget, call: LibraryCall) -> Any:
        return NOTHING


_Handler: TypeAlias = Callable[[Effects, Any, LibraryCall], Any]
HANDLERS: dict[type, _Handler] = {
    api.Loss: Effects.make_loss,
    api.Backward: Effects.run_backward,
    api.ScaleLoss: Effects.scale_loss,
    api.ScaleGradients: Effects.run_scale,
    api.Unscale: Effects.run_unscale,
    api.Clip: Effects.run_clip,
    api.Step: Effects.run_step,
    api.Clear: Effects.run_clear,
    api.Advance: Effects.run_advance,
    api.SetSync: Effects.set_sync,
    api.Microstep: Effects.count_microstep,
    api.Make: Effects.make_object,
    api.Wrap: Effects.wrap,
    api.Yields: lambda machine, effect, call: machine.operand(effect.operand, call),
    api.Iterate: Effects.iterate,
    api.Counts: Effects.counts,
    api.Reduce: Effects.reduce,
    api.AllReduce: Effects.all_reduce,
    api.WorldSize: Effects.world_size,
    api.Detach: lambda machine, effect, call: machine.detached(machine.operand(effect.operand, call)),
    api.Same: Effects.same,
    api.Copy: Effects.copied,
    api.Draw: Effects.draw,
    api.Arithmetic: Effects.arithmetic,
    api.Clamp: Effects.clamp,
    api.Select: Effects.select,
    api.RankDivisor: lambda machine, effect, call: machine.set_rank_divisor(machine.operand(effect.by, call)),
    api.NoGrad: lambda machine, effect, call: NOTHING,
    api.SetMode: Effects.set_mode,
    api.Drive: Effects.drive,
    api.Hook: Effects.call_hook,
    api.Exempt: Effects.exempt,
    api.Forget: Effects.forget,
}
