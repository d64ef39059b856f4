"""What each effect of a row does: one handler an effect, and no library's name."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

from accumlint.apis import language as api
from accumlint.apis.signature import Default
from accumlint.reading import ir
from accumlint.semantics.calls import Calls
from accumlint.semantics.machine import Store
from accumlint.semantics.numbers import ONE, Num, combine, number
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLEAR, CLIP, SCALE, STEP, SYNC, UNSCALE, UPDATE
from accumlint.semantics.values import (
    Canonical,
    Context,
    Division,
    Fact,
    Form,
    FunctionValue,
    Items,
    LibraryCall,
    Mapping,
    Object,
    Opaque,
    RangeValue,
    Site,
    Stream,
    Value,
    carries_gradient,
    facts_of,
    lineage_of,
    modules_of,
    path_of,
)

WORLD = Fraction(5)
COUPLED_NAME = re.compile(
    r"info_?nce|nt_?xent|simclr|contrastive|clip_?loss|in_?batch|supcon|dice|tversky|iou_?loss|barlow|vicreg"
    r"|\bcox|mmd_?loss|batch_?hard",
    re.I,
)
"""Names of losses that couple the examples of a batch."""
_NOTHING = object()


class Effects(Calls):
    """Performs library calls by the effects of their rows."""

    # ----------------------------------------------------------------------------------------- operands

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
            return self.get_attribute(call.receiver, operand.name, call.node)
        if isinstance(operand, api.ArgAttr):
            return self._part_of_argument(operand, call)
        owner = call.receiver.owner if isinstance(call.receiver, Object) else None
        if isinstance(operand, api.Owner):
            return owner
        return Opaque("owner") if owner is None else self.get_attribute(owner, operand.name, call.node)

    def _argument(self, name: str, call: LibraryCall) -> Value:
        value = call.bound.get(name)
        if isinstance(value, Default):
            plain = value.value
            return plain if isinstance(plain, bool | int | float | str | None) else Opaque(str(plain))
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
        self.trace.world = number(WORLD, "world size", frozenset({"world size"}))
        return self.trace.world

    def holds(self, condition: api.Condition, call: LibraryCall) -> bool:
        value = self.operand(condition.operand, call)
        if isinstance(value, Opaque):
            known = self.as_number(value)
            if known is None:
                return condition.unknown
            value = known
        if isinstance(value, Num) and isinstance(condition.value, int | float):
            whole = value.as_int()
            answer = whole is not None and whole == condition.value
        elif isinstance(value, bool | int | float | str | None) or condition.value is None:
            answer = value is None if condition.value is None else value == condition.value
        else:
            return condition.unknown
        return answer != condition.negated

    # ------------------------------------------------------------------------------------------ applying

    def is_context(self, row: api.Row) -> bool:
        return any(isinstance(effect, api.NoGrad) for effect in row.does)

    def enter(self, context: Context) -> Value:
        value = self.apply(context.call)
        return value if value is not None else context.call.receiver

    def leave(self, context: Context) -> None:
        self._run(context.call.row.undo, context.call)

    def apply(self, call: LibraryCall) -> Value:
        """Run the effects of a row in order; at most one of them yields the value of the call."""
        for text in call.row.assumes:
            self.assume(text)
        if any(isinstance(effect, api.NoGrad) for effect in call.row.does):
            self.no_grad += 1
            return None
        yielded = self._run(call.row.does, call)
        if yielded is _NOTHING:
            arguments = [v for v in call.bound.values() if not isinstance(v, Default | tuple | dict)]
            sources: list[Any] = [call.receiver, *arguments]
            self.note_logged("", call.row.call, [s for s in sources if s is not None], call.node)
            name = call.row.call.rpartition(".")[2]
            text = f"{path_of(call.receiver)}.{name}" if call.receiver is not None else name
            result = self.opaque(f"{text}({', '.join(path_of(s) for s in arguments)})", *sources, node=call.node)
            return replace(result, facts=frozenset().union(*(facts_of(source) for source in sources)))
        return yielded  # type: ignore[no-any-return]

    def _run(self, effects: tuple[api.Effect, ...], call: LibraryCall) -> Any:
        result: Any = _NOTHING
        for effect in effects:
            if all(self.holds(condition, call) for condition in effect.when):
                value = HANDLERS[type(effect)](self, effect, call)
                if value is not _NOTHING:
                    result = value
        return result

    def perform_setter(self, row: api.Row, receiver: Value, value: Value, node: ir.NodeId) -> None:
        self._run(row.does, LibraryCall(row, receiver, {"value": value}, node))

    # -------------------------------------------------------------------------------------------- losses

    def make_loss(self, effect: api.Loss, call: LibraryCall) -> Value:
        reduction = self.operand(effect.reduction, call)
        word = reduction if isinstance(reduction, str) else "unknown"
        word = {"batchmean": "mean"}.get(word, word)
        sources = [v for v in call.bound.values() if not isinstance(v, Default | tuple | dict)]
        lineage = frozenset().union(*(lineage_of(source) for source in sources))  # type: ignore[arg-type]
        targets = self.operand(effect.targets, call)
        site = Site(
            call.node,
            word,
            lineage,
            frozenset().union(*(modules_of(source) for source in sources)),  # type: ignore[arg-type]
            effect.count,
            call.row.call,
            self._loss_facts(effect, call, targets),
            effect.separable and not self._couples(effect, call, targets),
            (("target", path_of(targets)), ("reduction", path_of(reduction))),
            f"{call.row.call.rpartition('.')[2]}(...)",
        )
        return Form(((site, ONE),), detached=bool(self.no_grad), text=site.text)

    def _couples(self, effect: api.Loss, call: LibraryCall, targets: Value) -> bool:
        """Whether a loss compares the examples of a batch with each other: similarities against their own places."""
        if any(COUPLED_NAME.search(name) for name in self.stack):
            return True
        inputs = self.operand(effect.inputs, call) if effect.inputs is not None else None
        return not lineage_of(targets) and any(fact.name == "product" for fact in facts_of(inputs))

    def _loss_facts(self, effect: api.Loss, call: LibraryCall, targets: Value) -> frozenset[Fact]:
        facts = set(facts_of(targets))
        inputs = self.operand(effect.inputs, call) if effect.inputs is not None else None
        facts |= set(facts_of(inputs))
        if effect.ignore is not None and any(path_of(targets).startswith(path) for path in self.filled):
            facts.add(Fact("filled", call.node, path_of(targets)))
        if effect.ignore is not None:
            ignored = self.operand(effect.ignore, call)
            facts |= self._ignore_facts(ignored, call)
        if effect.count in (api.Count.WEIGHTED_TARGETS, api.Count.WEIGHT_SUM):
            facts.add(Fact("class weights", call.node))
        return frozenset(facts)

    def _ignore_facts(self, ignored: Value, call: LibraryCall) -> set[Fact]:
        given = call.bound.get("ignore_index")
        if isinstance(call.receiver, Object):
            given = call.receiver.attributes.get("explicit ignore_index")
        if given is None or isinstance(given, Default):
            return set()
        return {Fact("ignore_index", call.node, path_of(ignored))}

    def run_backward(self, effect: api.Backward, call: LibraryCall) -> Value:
        loss = self.operand(effect.loss, call)
        if isinstance(loss, Items):
            for item in loss.items:
                self._backward(item, effect, call)
            return None
        self._backward(loss, effect, call)
        return None

    def _backward(self, loss: Value, effect: api.Backward, call: LibraryCall) -> None:
        self.trace.covered.add(call.node)
        self.trace.followed |= {int(key.rpartition("@")[2]) for key in self.stack}
        if isinstance(loss, Opaque | Object):
            unknown = loss if isinstance(loss, Opaque) else Opaque(loss.path, node=call.node)
            if unknown.node < 0:
                unknown = replace(unknown, node=call.node)
            loss = self.as_form(unknown)
        if not isinstance(loss, Form):
            return
        form = loss
        if effect.divided_by is not None:
            form = self._divided_by_framework(form, self.operand(effect.divided_by, call), call.node)
        self.current = self.microbatch_of(form.lineage)
        scaled = form.scaler is not None
        stores = self.reached_stores(form.modules)
        for store in stores or [None]:
            if store is not None:
                self._add(store.gradient, form)
                store.scaled = scaled or (store.scaled and bool(store.gradient))
                store.scaled = scaled
            sync = self.sync if self.forward_sync is None else self.forward_sync
            self.emit(BACKWARD, call.node, store, form=form, detail="" if sync else "nosync",
                      snapshot=None if store is not None else self._alone(form))  # fmt: skip
        self._add(self.universe, form)
        self.universe_scaled = scaled
        for division in form.divisions:
            if division not in self.trace.divisions:
                self.trace.divisions.append(division)

    def _alone(self, form: Form) -> dict[tuple[Site, int], Num]:
        return {(site, self.current): coefficient for site, coefficient in form.terms}

    def _add(self, gradient: dict[tuple[Site, int], Num], form: Form) -> None:
        for site, coefficient in form.terms:
            key = (site, self.microbatch_of(site.lineage) if site.lineage else self.current)
            present = gradient.get(key)
            gradient[key] = coefficient if present is None else combine("+", present, coefficient) or coefficient

    def _divided_by_framework(self, form: Form, by: Value, node: ir.NodeId) -> Form:
        known = self.as_number(by)
        if known is None and isinstance(by, Opaque):
            self.learn_steps(by)
            known = self.as_number(by)
        if known is None or known.as_int() == 1:
            return form
        terms = tuple((site, combine("/", coefficient, known) or coefficient) for site, coefficient in form.terms)
        divided = replace(known, text=f"framework: {known.text}")
        return replace(form, terms=terms, divisions=(*form.divisions, Division(node, divided)))

    def scale_loss(self, effect: api.ScaleLoss, call: LibraryCall) -> Value:
        loss = self.operand(effect.loss, call)
        if isinstance(loss, Opaque):
            loss = self.as_form(loss)
        if not isinstance(loss, Form):
            return loss
        scaler = self.operand(effect.scaler, call)
        owner = scaler if isinstance(scaler, Object) else Object(path_of(scaler) or "scaler", api.Role.SCALER)
        return replace(loss, scaler=owner)

    # ----------------------------------------------------------------------------------------- gradients

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
            return self.reached_stores(target.modules or self.module_names(target))
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
        if isinstance(target, Num | bool | int | float):
            return self._changed_in_place(call, 0)
        if isinstance(target, Opaque) and target.kind not in ("parameter", "parameters", "gradient", "group"):
            plain = call.row.call.endswith(".zero_")
            if plain:
                return self._changed_in_place(call, 0) if not target.lineage else _NOTHING
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
        if factor is None and isinstance(by, Form | Opaque):
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
        if isinstance(target, Object | Items) or own:
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
        return _NOTHING

    def run_clip(self, effect: api.Clip, call: LibraryCall) -> Any:
        for store in self.stores_of(self.operand(effect.gradients, call)):
            self.emit(CLIP, call.node, store, detail=effect.kind)
        return Opaque("gradient norm")

    def run_step(self, effect: api.Step, call: LibraryCall) -> Any:
        closure = call.bound.get("closure")
        if isinstance(closure, FunctionValue):
            self.trace.exempt = self.trace.exempt or "the optimizer calls a closure"
            self.call(closure, self.no_arguments(), call.node, call.frame)  # type: ignore[arg-type]
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
            return _NOTHING
        self.sync = truth != effect.negate
        self.sync_node = call.node
        self.emit(SYNC, call.node, None, detail="on" if self.sync else "off")
        return _NOTHING

    def count_microstep(self, effect: api.Microstep, call: LibraryCall) -> Any:
        every = self.operand(effect.every, call)
        known = self.as_number(every)
        if known is None and isinstance(every, Opaque):
            self.learn_steps(every)
        whole = 1 if known is None else known.as_int() or 1
        if self.trace.steps is None and whole > 1:
            self.trace.steps, self.trace.steps_text = whole, path_of(every)
        owner = call.receiver
        if not isinstance(owner, Object):
            return _NOTHING
        taken = owner.attributes.get("microsteps")
        count = (taken if isinstance(taken, int) else 0) + 1
        at_end = False
        if effect.last_of_loader is not None and self.operand(effect.last_of_loader, call) is not False:
            loop = next((loop for loop in self.enclosing() if loop.is_data), None)
            at_end = loop is not None and loop.is_last and loop.finite and self._is_prepared(loop.key)
        owner.attributes["microsteps"] = 0 if at_end else count
        owner.attributes[effect.flag] = count % whole == 0 or at_end
        return _NOTHING

    def _is_prepared(self, key: str) -> bool:
        return "DataLoaderShard" in key or "prepared" in key or key.startswith(("lightning", "deepspeed"))

    # ------------------------------------------------------------------------------------------- objects

    def make_object(self, effect: api.Make, call: LibraryCall) -> Value:
        if effect.role is api.Role.PARAMETERS:
            return self.parameters_of(call.receiver, f"{path_of(call.receiver)}.parameters()", call.node)
        canonical = effect.canonical or call.row.call
        of = tuple(self.operand(operand, call) for operand in effect.of)
        modules = frozenset().union(*(modules_of(value) for value in of)) if of else frozenset()
        name = canonical.rpartition(".")[2]
        made = Object(f"{name}@{call.node}", effect.role, canonical, of=of, node=call.node, modules=modules)
        for key, operand in effect.attributes:
            made.attributes[key] = self.operand(operand, call)
        for name, value in call.bound.items():
            if effect.role in (api.Role.LOADER, api.Role.LOSS_FUNCTION) and not isinstance(value, tuple | dict):
                made.attributes[f"explicit {name}"] = (
                    None if isinstance(value, Default) else value  # type: ignore[assignment]
                )
        if effect.role is api.Role.OPTIMIZER:
            shared = next((v.source for v in of if isinstance(v, Opaque) and v.kind == "groups" and v.source), None)
            if shared is not None:
                made.attributes["shares"] = shared
            self.store_of(made)
        return made

    def wrap(self, effect: api.Wrap, call: LibraryCall) -> Value:
        values: list[Value] = []
        classes: list[str] = []
        for place, operand in enumerate(effect.operands):
            value = self.operand(operand, call)
            listed = value.items if isinstance(operand, api.Arg) and operand.name.startswith("*") else None  # type: ignore[union-attr]
            members = listed if listed is not None else [value]
            values += members
            given = effect.classes[place] if place < len(effect.classes) else ""
            classes += [given] * len(members)
        wrapped = [
            self._wrapped(value, self._class_of(value, given, effect), effect, call)
            for value, given in zip(values, classes, strict=True)
        ]
        if len(wrapped) == 1:
            return wrapped[0]
        return Items("tuple", wrapped)

    def _class_of(self, value: Value, given: str, effect: api.Wrap) -> str:
        if given:
            return given
        roles = dict(effect.roles)
        if isinstance(value, Object) and value.role is not None:
            return roles.get(value.role, "")
        path = path_of(value).rpartition(".")[2].lower()
        for role, words in _ROLE_WORDS:
            if role in roles and any(word in path for word in words):
                return roles[role]
        return roles.get(api.Role.MODEL, "") if isinstance(value, Opaque | Object) else ""

    def _wrapped(self, value: Value, canonical: str, effect: api.Wrap, call: LibraryCall) -> Value:
        if not canonical or value is None and not effect.classes:
            return value
        registry = self.program.registry
        role = registry.role_of(canonical)
        owner = call.receiver if isinstance(call.receiver, Object) else None
        if isinstance(value, Object):
            made = value
            if role is api.Role.LOADER or not value.instance:
                made = Object(
                    value.path, role, canonical, dict(value.attributes), owner, value.of, value.instance,
                    value.lineage, value.node, value.modules,
                )  # fmt: skip
            else:
                made.canonical, made.owner = canonical, owner
        elif isinstance(value, Opaque):
            names = self.module_names(value) if role in _MODULES else value.modules
            made = Object(value.path, role, canonical, owner=owner, modules=names, node=call.node)
            if role not in _MODULES:
                self.objects[value.path] = made
        else:
            name = canonical.rpartition(".")[2]
            made = Object(f"{name}@{call.node}", role, canonical, owner=owner, node=call.node)
        for key, operand in effect.attributes:
            made.attributes[key] = self.operand(operand, call)
        if role in (api.Role.OPTIMIZER, api.Role.PREPARED_OPTIMIZER, api.Role.ENGINE) and value is not None:
            store = self.store_of(made)
            store.optimizer = made
        return made

    # ------------------------------------------------------------------------------------------- numbers

    def iterate(self, effect: api.Iterate, call: LibraryCall) -> Value:
        operands = [self.operand(operand, call) for operand in effect.operands]
        if len(operands) == 1 and isinstance(operands[0], Items) and isinstance(effect.operands[0], api.Arg):
            if effect.operands[0].name.startswith("*"):
                operands = list(operands[0].items)
        start = self.operand(effect.start, call) if effect.start is not None else 0
        stop = self.operand(effect.stop, call) if effect.stop is not None else None
        return self.iterator(effect.kind, operands, start, stop, call)

    def iterator(
        self, kind: str, operands: list[Value], start: Value, stop: Value, call: LibraryCall
    ) -> Value:
        node = call.node
        first = operands[0] if operands else None
        if kind in ("pass", "reversed"):
            return first if not isinstance(first, RangeValue) or kind == "pass" else first
        if kind == "range":
            return RangeValue(0, first, 1, node)
        if kind == "iter":
            return self.stream(first, node)
        if kind == "next":
            default = call.bound.get("default", _NOTHING)
            has_default = not isinstance(default, Default) and default is not _NOTHING
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
        return self.opaque(kind, *operands, node=node)

    def _enumerate(self, value: Value, start: Value, node: ir.NodeId) -> Value:
        inner = self.stream(value, node)
        first = self.as_number(start)
        offset = (first.as_int() or 0) if first is not None else 0
        pairs = (Items("tuple", [offset + place, item]) for place, item in enumerate(inner.iterator))
        length = len(value.items) if isinstance(value, Items) else inner.length
        return Stream(pairs, inner.finite, inner.key, length)  # type: ignore[arg-type]

    def _zip(self, values: list[Value], node: ir.NodeId) -> Value:
        streams = [self.stream(value, node) for value in values]
        finite = [stream for stream in streams if stream.finite]
        key = finite[0].key if finite else (streams[0].key if streams else f"zip@{node}")
        tuples = (Items("tuple", list(items)) for items in zip(*(s.iterator for s in streams), strict=False))
        return Stream(tuples, bool(finite), key)  # type: ignore[arg-type]

    def _islice(self, value: Value, start: Value, stop: Value, node: ir.NodeId) -> Value:
        inner = self.stream(value, node)
        count = self.as_number(stop)
        if count is None and isinstance(stop, Opaque):
            self.learn_steps(stop)
            count = self.as_number(stop)
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

        return Stream(taken(), inner.finite, f"islice@{node}")

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

    def _batched(self, value: Value, size: Value, node: ir.NodeId) -> Value:
        inner = self.stream(value, node)
        if isinstance(size, Opaque) and self.as_number(size) is None:
            self.learn_steps(size)
        count = self.as_number(size)
        whole = (count.as_int() if count is not None else None) or self.knowledge.window
        self.streamed.add(inner.key)

        def groups() -> Iterator[Value]:
            while True:
                group = [element for element, _ in zip(inner.iterator, range(whole), strict=False)]
                if not group:
                    return
                yield Items("tuple", group, f"batched@{node}")

        return Stream(groups(), inner.finite, f"batched@{node}")

    def counts(self, effect: api.Counts, call: LibraryCall) -> Value:
        target = self.operand(effect.of, call)
        return self.size_of(target, f"{path_of(target)}.{call.row.call.rpartition('.')[2]}()")

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

    def all_reduce(self, effect: api.AllReduce, call: LibraryCall) -> Any:
        target = self.operand(effect.operand, call)
        known = self.as_number(target)
        if known is None:
            return target if effect.yields else None
        self.trace.reduced = True
        ranks = ONE if effect.mean else self.world()
        summed = combine("*", known, ranks)
        if summed is None:
            return _NOTHING
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
            bound = None if operand is None else self.as_number(self.operand(operand, call))
            if bound is not None:
                known = combine(word, known, bound) or known
        return known

    def forget(self, effect: api.Forget, call: LibraryCall) -> Any:
        return _NOTHING


_MODULES = (api.Role.MODEL, api.Role.WRAPPED_MODEL, api.Role.ENGINE)
_ROLE_WORDS = (
    (api.Role.OPTIMIZER, ("optim", "opt")),
    (api.Role.SCHEDULER, ("sched",)),
    (api.Role.LOADER, ("loader", "dl", "batches", "dataset")),
)
_SHAPING = frozenset({"view", "reshape", "flatten", "transpose", "permute", "squeeze", "view_as"})

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
    api.WorldSize: lambda machine, effect, call: machine.world(),
    api.Detach: lambda machine, effect, call: machine.detached(machine.operand(effect.operand, call)),
    api.Same: Effects.same,
    api.Draw: lambda machine, effect, call: Opaque(
        f"{call.row.call.rpartition('.')[2]}()", machine.arrival("random", rank=-1), node=call.node
    ),
    api.Arithmetic: Effects.arithmetic,
    api.Clamp: Effects.clamp,
    api.RankDivisor: lambda machine, effect, call: machine.set_rank_divisor(machine.operand(effect.by, call)),
    api.NoGrad: lambda machine, effect, call: _NOTHING,
    api.Forget: Effects.forget,
}

__all__ = ["HANDLERS", "Canonical", "Effects", "carries_gradient"]
