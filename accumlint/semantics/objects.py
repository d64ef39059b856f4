"""Objects that library calls make and wrap."""

from __future__ import annotations

from dataclasses import replace

from accumlint.apis import language as api
from accumlint.apis.signature import Default
from accumlint.semantics.gradients import Gradients
from accumlint.semantics.machine import meet
from accumlint.semantics.values import (
    Items,
    LibraryCall,
    Object,
    Opaque,
    Value,
    modules_of,
    path_of,
)

_MODULES = (api.Role.MODEL, api.Role.WRAPPED_MODEL, api.Role.ENGINE)
_ROLE_WORDS = (
    (api.Role.OPTIMIZER, ("optim", "opt")),
    (api.Role.SCHEDULER, ("sched",)),
    (api.Role.LOADER, ("loader", "dl", "batches", "dataset")),
)


class Objects(Gradients):
    """Makes objects of a role, and wraps them (`prepare`, `setup`, `DDP`)."""

    def make_object(self, effect: api.Make, call: LibraryCall) -> Value:
        if effect.role is api.Role.PARAMETERS:
            owner = self.operand(effect.of[0], call) if effect.of else call.receiver
            parameters = self.parameters_of(owner, f"{path_of(owner)}.parameters()", call.node)
            if isinstance(owner, Object) and owner.role is api.Role.OPTIMIZER:
                return replace(parameters, source=owner)
            return parameters
        canonical = effect.canonical or call.row.call
        of = tuple(self.operand(operand, call) for operand in effect.of)
        modules = frozenset().union(*(modules_of(value) for value in of)) if of else frozenset()
        if any(isinstance(value, Object) and value.instance is not None for value in of):
            modules = frozenset()  # the optimizer of a whole module of the file: it reaches every part
        name = canonical.rpartition(".")[2]
        path = f"{name}@{path_of(call.receiver) if effect.kept else call.node}"
        if effect.kept and path in self.objects:
            return self.objects[path]
        if effect.role is api.Role.MODEL:
            path = self.distinct(path)
        elif effect.role is api.Role.OPTIMIZER and not effect.kept:
            path = self._own_path(path, modules)
        made = Object(path, effect.role, canonical, of=of, node=call.node, modules=modules)
        if effect.role is api.Role.MODEL:
            self.model_classes[made.path] = canonical
        for key, operand in effect.attributes:
            made.attributes[key] = self.operand(operand, call)
        for name, value in call.bound.items():
            if effect.role in (api.Role.LOADER, api.Role.LOSS_FUNCTION) and not isinstance(value, (tuple, dict)):
                made.attributes[f"explicit {name}"] = (
                    None if isinstance(value, Default) else value  # type: ignore[assignment]
                )
        if effect.role is api.Role.OPTIMIZER:
            shared = next((v.source for v in of if isinstance(v, Opaque) and v.kind == "groups" and v.source), None)
            if shared is not None:
                made.attributes["shares"] = shared
            self.store_of(made)
        if effect.kept:
            self.objects[path] = made
        return made

    def _own_path(self, path: str, modules: frozenset[str]) -> str:
        """The name of an optimizer: one place makes several, for other callers or each with a copy of the model."""
        callers = tuple(self.callers)
        name, count = path, 1
        while (known := self.stores.get(name)) is not None and (
            not meet(known.modules, modules) or self.made_by.get(name, callers) != callers
        ):
            count += 1
            name = f"{path}#{count}"
        self.made_by.setdefault(name, callers)
        return name

    def wrap(self, effect: api.Wrap, call: LibraryCall) -> Value:
        values: list[Value] = []
        classes: list[str] = []
        for place, operand in enumerate(effect.operands):
            value = self.operand(operand, call)
            starred = isinstance(operand, api.Arg) and operand.name.startswith("*")
            members: list[Value] = list(value.items) if starred and isinstance(value, Items) else [value]
            values += members
            given = effect.classes[place] if place < len(effect.classes) else ""
            classes += [given] * len(members)
        wrapped = [
            self._wrapped(value, self._class_of(value, given, effect), effect, call)
            for value, given in zip(values, classes, strict=True)
        ]
        self._taken_in(values, wrapped)
        if len(wrapped) == 1:
            return wrapped[0]
        return Items("tuple", wrapped)

    def _taken_in(self, values: list[Value], wrapped: list[Value]) -> None:
        """An optimizer that is handed to an engine steps in it: there is one gradient, the engine's."""
        engine = next((made for made in wrapped if isinstance(made, Object) and made.role is api.Role.ENGINE), None)
        for value, made in zip(values, wrapped, strict=True):
            prepared = isinstance(made, Object) and made.role is api.Role.PREPARED_OPTIMIZER
            if engine is None or not prepared or value is None:
                continue
            for each in (value, made):
                if isinstance(each, Object):
                    self.stores.pop(each.path, None)
                    each.attributes["shares"] = engine

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
        return roles.get(api.Role.MODEL, "") if isinstance(value, (Opaque, Object)) else ""

    def _wrapped(self, value: Value, canonical: str, effect: api.Wrap, call: LibraryCall) -> Value:
        if not canonical or (value is None and not effect.classes):
            return value
        registry = self.program.registry
        role = registry.role_of(canonical)
        self.trace.averages |= role is api.Role.WRAPPED_MODEL
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
