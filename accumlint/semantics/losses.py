"""Births and backwards of losses."""

from __future__ import annotations

from dataclasses import replace

from accumlint.apis import language as api
from accumlint.apis.signature import Default
from accumlint.reading import ir
from accumlint.reading.project import FOREIGN
from accumlint.semantics.knowledge import Store
from accumlint.semantics.numbers import ONE, Num, combine
from accumlint.semantics.operands import COUPLED_NAME, Operands
from accumlint.semantics.similarity import PRODUCT, SIMILARITY
from accumlint.semantics.trace import BACKWARD
from accumlint.semantics.values import (
    Division,
    Fact,
    Form,
    Items,
    LibraryCall,
    Object,
    Opaque,
    Site,
    Value,
    facts_of,
    lineage_of,
    modules_of,
    path_of,
)


class Losses(Operands):
    """Loss sites, and what a backward adds to the gradients."""

    def make_loss(self, effect: api.Loss, call: LibraryCall) -> Value:
        reduction = self.operand(effect.reduction, call)
        word = reduction if isinstance(reduction, str) else "unknown"
        word = {"batchmean": "mean"}.get(word, word)
        sources = [v for v in call.bound.values() if not isinstance(v, (Default, tuple, dict))]
        lineage = frozenset().union(*(lineage_of(source) for source in sources))  # type: ignore[arg-type]
        targets = self.operand(effect.targets, call)
        inputs = self.operand(effect.inputs, call) if effect.inputs is not None else None
        site = Site(
            call.node,
            word,
            lineage,
            frozenset().union(*(modules_of(source) for source in sources)),  # type: ignore[arg-type]
            effect.count,
            call.row.call,
            self._loss_facts(effect, call, targets),
            effect.separable and not self._couples(effect, call, targets),
            (("target", path_of(targets)), ("reduction", path_of(reduction)), ("input", path_of(inputs))),
            f"{call.row.call.rpartition('.')[2]}(...)",
        )
        return Form(((site, ONE),), detached=bool(self.no_grad), text=site.text)

    def _couples(self, effect: api.Loss, call: LibraryCall, targets: Value) -> bool:
        """Whether a loss compares the examples of a batch with each other: similarities against their own places."""
        if any(COUPLED_NAME.search(name) for name in self.stack):
            return True
        inputs = self.operand(effect.inputs, call) if effect.inputs is not None else None
        if any(fact.name == SIMILARITY for fact in facts_of(inputs) | facts_of(targets)):
            return True
        return not lineage_of(targets) and any(fact.name == PRODUCT for fact in facts_of(inputs))

    def _loss_facts(self, effect: api.Loss, call: LibraryCall, targets: Value) -> frozenset[Fact]:
        facts = set(facts_of(targets))
        inputs = self.operand(effect.inputs, call) if effect.inputs is not None else None
        facts |= set(facts_of(inputs))
        if effect.ignore is not None and self.is_filled(path_of(targets)):
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
        written = call.written.get("ignore_index")
        if ignored == -100 and (call.node >= FOREIGN or self._is_passed_on(written, call)):
            return set()  # a helper that passes the default on says nothing of the data
        return {Fact("ignore_index", call.node, path_of(ignored))}

    def _is_passed_on(self, written: ir.Expression | None, call: LibraryCall) -> bool:
        """Whether an argument is a parameter of the function around the call, not a constant of the file."""
        if not isinstance(written, ir.Name) or call.frame is None:
            return False
        frame = call.frame.find(written.id)
        return frame is not None and frame.parent is not None

    def run_backward(self, effect: api.Backward, call: LibraryCall) -> Value:
        loss = self.operand(effect.loss, call)
        given = call.bound.get("gradient")
        if isinstance(given, Opaque) and "ones" not in given.path:
            self.trace.exempt = self.trace.exempt or "a gradient of its own is handed to backward"
        if isinstance(loss, Items):
            for item in loss.items:
                self._backward(item, effect, call)
            return None
        self._backward(loss, effect, call)
        return None

    def _backward(self, loss: Value, effect: api.Backward, call: LibraryCall) -> None:
        self.trace.covered.add(call.node)
        self.anchored(call.node)
        self.trace.followed |= {int(key.rpartition("@")[2]) for key in self.stack}
        if isinstance(loss, (Opaque, Object)):
            unknown = loss if isinstance(loss, Opaque) else Opaque(loss.path, node=call.node)
            if unknown.node < 0:
                unknown = replace(unknown, node=call.node)
            loss = self.as_form(unknown)
        if not isinstance(loss, Form):
            return
        form = loss
        if effect.divided_by is not None:
            form = self._divided_by_framework(form, self.operand(effect.divided_by, call), call)
        modes = [self.modes[name] for name in form.modules if name in self.modes]
        if modes and not any(modes):
            self.trace.frozen.add(call.node)
        self.current = self.microbatch_of(form.lineage)
        scaled = form.scaler is not None
        stores = self.reached_stores(form.modules)
        reached: list[Store | None] = [*stores] or [None]
        for store in reached:
            if store is not None:
                self._add(store.gradient, form)
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

    def _divided_by_framework(self, form: Form, by: Value, call: LibraryCall) -> Form:
        known = self.steps_number(by)
        if known is None or known.as_int() == 1:
            return form
        terms = tuple((site, combine("/", coefficient, known) or coefficient) for site, coefficient in form.terms)
        unseen = isinstance(by, Opaque) and (by.path.startswith(f"{path_of(call.receiver)}.") or "@" in by.path)
        divided = replace(known, text=f"{'unseen ' if unseen else ''}framework: {known.text}")
        return replace(form, terms=terms, divisions=(*form.divisions, Division(call.node, divided)))

    def scale_loss(self, effect: api.ScaleLoss, call: LibraryCall) -> Value:
        loss = self.operand(effect.loss, call)
        if isinstance(loss, Opaque):
            loss = self.as_form(loss)
        if not isinstance(loss, Form):
            return loss
        scaler = self.operand(effect.scaler, call)
        owner = scaler if isinstance(scaler, Object) else Object(path_of(scaler) or "scaler", api.Role.SCALER)
        return replace(loss, scaler=owner)
