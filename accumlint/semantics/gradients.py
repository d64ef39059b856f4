"""What calls do to gradients and clocks."""

from __future__ import annotations

from typing import Any

from accumlint.apis import language as api
from accumlint.reading import ir
from accumlint.semantics.knowledge import LARGEST_LITERAL, Restart, Store
from accumlint.semantics.losses import Losses
from accumlint.semantics.numbers import Num, combine
from accumlint.semantics.operands import NOTHING
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLEAR, CLIP, SCALE, STEP, SYNC, UNSCALE, UPDATE
from accumlint.semantics.values import (
    Form,
    FunctionValue,
    Items,
    LibraryCall,
    Object,
    Opaque,
    Value,
    lineage_of,
    path_of,
)


class Gradients(Losses):
    """Scale, unscale, clip, step, clear, advance, synchronise."""

    def stores_of(self, target: Value) -> list[Store]:
        """The stores whose gradient an operand names: an optimizer's, or those that a module's parameters are in."""
        if isinstance(target, Items):
            found = [store for item in target.items for store in self.stores_of(item)]
            return list({id(store): store for store in found}.values())
        if isinstance(target, Opaque) and target.source is not None and target.source.role is api.Role.OPTIMIZER:
            return [self.store_of(target.source)]
        if isinstance(target, Opaque) and target.path in self.objects:
            return self.stores_of(self.objects[target.path])
        if isinstance(target, Object):
            optimizer = api.Role.OPTIMIZER, api.Role.PREPARED_OPTIMIZER, api.Role.ENGINE, api.Role.TRAINER
            if target.role in optimizer or target.path in self.stores:
                return [self.store_of(target)]
            return self.reached_stores(self.module_names(target))
        if isinstance(target, Opaque):
            return self.reached_stores(target.modules | self.module_names(target))
        return []

    def clear_gradients(self, target: Value, node: ir.NodeId, *, gated: bool = False) -> None:
        stores = self.stores_of(target)
        if not stores and len(self.stores) == 1 and not (isinstance(target, Object) and target.path in self.stores):
            stores = list(self.stores.values())  # one optimizer, and a model whose name was lost on the way
        for store in stores:
            self.emit(CLEAR, node, store, gated=gated)
            store.gradient = {}
            store.scaled = False

    def run_clear(self, effect: api.Clear, call: LibraryCall) -> Any:
        target = self.operand(effect.gradients, call)
        if isinstance(target, (Num, bool, int, float)):
            return self._changed_in_place(call, 0)
        if isinstance(target, Opaque) and target.kind not in ("parameter", "parameters", "gradient", "group"):
            plain = call.row.call.endswith(".zero_")
            if plain:
                return self._changed_in_place(call, 0) if not target.lineage else NOTHING
        self.clear_gradients(target, call.node, gated=bool(effect.when))
        return None

    def _changed_in_place(self, call: LibraryCall, value: Value) -> Value:
        """A number changed by a method (`n.zero_()`): its name is bound anew."""
        for name in ("self", "input", "tensor"):
            if name in call.written and call.frame is not None:
                self.assign(call.written[name], value, call.frame)
                break
        return value

    def scale_gradient(self, target: Value, operator: str, by: Value, node: ir.NodeId) -> None:
        """`p.grad /= n` and its relatives."""
        if operator not in ("*", "/"):
            if operator == "+":
                return
            self.trace.exempt = self.trace.exempt or "gradients are changed by hand"
            return
        factor = self.as_number(by)
        if factor is None and isinstance(by, Opaque) and not by.lineage:
            factor = self.learn_factor(by)
        if factor is None and isinstance(by, (Form, Opaque)):
            factor = self.count_for(lineage_of(by), path_of(by))
        if factor is None:
            self.trace.exempt = self.trace.exempt or "gradients are scaled by something unknown"
            return
        for store in self.stores_of(target):
            for key, coefficient in list(store.gradient.items()):
                result = combine(operator, coefficient, factor)
                if result is not None:
                    store.gradient[key] = result
            self.emit(SCALE, node, store, by=factor, detail=operator)

    def run_scale(self, effect: api.ScaleGradients, call: LibraryCall) -> Any:
        target = self.operand(effect.gradients, call)
        by = self.operand(effect.by, call)
        word = "/" if effect.divide else "*"
        own = isinstance(target, Opaque) and target.kind in ("parameter", "parameters", "gradient", "group")
        if isinstance(target, (Object, Items)) or own:
            self.scale_gradient(target, word, by, call.node)
            return None
        if isinstance(target, Opaque) and not target.lineage and call.row.call.rpartition(".")[2] not in (
            "mul_", "div_", "multiply_", "true_divide_"
        ):  # fmt: skip
            self.scale_gradient(target, word, by, call.node)
            return None
        return self._changed_in_place(call, self.binary(word, target, by, call.node))

    def run_unscale(self, effect: api.Unscale, call: LibraryCall) -> Any:
        for store in self.stores_of(self.operand(effect.optimizer, call)):
            if effect.unless_done and not store.scaled:
                continue
            self.emit(UNSCALE, call.node, store, detail="implicit" if effect.unless_done else "")
            store.scaled = False
            store.unscaled = True
        return NOTHING

    def run_clip(self, effect: api.Clip, call: LibraryCall) -> Any:
        for store in self.stores_of(self.operand(effect.gradients, call)):
            self.emit(CLIP, call.node, store, detail=effect.kind)
        return Opaque("gradient norm")

    def run_step(self, effect: api.Step, call: LibraryCall) -> Any:
        closure = call.bound.get("closure")
        if isinstance(closure, FunctionValue):
            begin = len(self.trace.events)
            self.call(closure, self.no_arguments(), call.node, call.frame)
            inside = {event.microbatch for event in self.trace.events[begin:] if event.kind == BACKWARD}
            held = {microbatch for store in self.stores.values() for _, microbatch in store.gradient}
            if len(inside) < 2 or not held <= inside:  # else it holds whole windows, which are judged as others are
                self.trace.exempt = self.trace.exempt or "the optimizer calls a closure"
        target = self.operand(effect.optimizer, call)
        if isinstance(target, Opaque):
            target = self.objects.setdefault(
                target.path, Object(target.path, api.Role.OPTIMIZER, "torch.optim.Optimizer")
            )
        for store in self.stores_of(target):
            self.emit(STEP, call.node, store, gated=bool(effect.when))
        return None

    def run_advance(self, effect: api.Advance, call: LibraryCall) -> Any:
        target = self.operand(effect.of, call)
        stores = list(self.stores.values())
        if effect.clock == "scheduler":
            tied = [s for value in (target.of if isinstance(target, Object) else ()) for s in self.stores_of(value)]
            if len(stores) == 1 or tied:
                self.emit(ADVANCE, call.node, (tied or stores)[0], detail=path_of(target), gated=bool(effect.when))
            return None
        for store in stores:
            store.unscaled = False
            self.emit(UPDATE, call.node, store, detail=path_of(target))
        return None

    def set_sync(self, effect: api.SetSync, call: LibraryCall) -> Any:
        on = self.operand(effect.on, call)
        truth = self.truth(on)
        if truth is None:
            if isinstance(on, Opaque) and on.wants:
                self.learn_from(on)
            return NOTHING
        self.sync = truth != effect.negate
        self.sync_node = call.node
        self.emit(SYNC, call.node, None, detail="on" if self.sync else "off")
        return NOTHING

    def count_microstep(self, effect: api.Microstep, call: LibraryCall) -> Any:
        every = self.operand(effect.every, call)
        known = self.as_number(every)
        if isinstance(every, Opaque) and self.is_open(every):
            self.learn_steps(every)
        whole = 1 if known is None else known.as_int() or 1
        if type(every) is int and 1 < whole <= LARGEST_LITERAL and self.knowledge.literal_steps != whole:
            self.knowledge.literal_steps = whole  # loaders have to be long enough for its windows
            raise Restart
        if self.trace.steps is None and whole > 1:
            self.trace.steps, self.trace.steps_text = whole, path_of(every)
        owner = call.receiver
        if not isinstance(owner, Object):
            return NOTHING
        taken = owner.attributes.get("microsteps")
        count = (taken if isinstance(taken, int) else 0) + 1
        at_end = False
        if effect.last_of_loader is not None and self.operand(effect.last_of_loader, call) is not False:
            loop = next((loop for loop in self.enclosing() if loop.is_data), None)
            at_end = (
                loop is not None and loop.is_last and loop.finite and (loop.driven > 0 or self._is_prepared(loop.key))
            )
        owner.attributes["microsteps"] = 0 if at_end else count
        owner.attributes[effect.flag] = count % whole == 0 or at_end
        return NOTHING

    def _is_prepared(self, key: str) -> bool:
        return "DataLoaderShard" in key or "prepared" in key or key.startswith(("lightning", "deepspeed"))
