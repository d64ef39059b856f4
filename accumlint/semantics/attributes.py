"""Names and attributes: what a free name is, what `value.name` holds."""

from __future__ import annotations

from accumlint.apis import language as api
from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.project import Project
from accumlint.reading.walk import last_name
from accumlint.semantics.builtins import BUILTINS
from accumlint.semantics.calls import Arguments
from accumlint.semantics.effects import Effects
from accumlint.semantics.frames import Frame
from accumlint.semantics.machine import Raised, Restart, ReturnFrom, Stopped
from accumlint.semantics.numbers import Num
from accumlint.semantics.outline import definitions_in
from accumlint.semantics.trace import BACKWARD
from accumlint.semantics.values import (
    Canonical,
    ClassValue,
    Deferred,
    Form,
    FunctionValue,
    Items,
    LibraryCall,
    Mapping,
    Method,
    Object,
    Opaque,
    Stream,
    Super,
    Value,
    hidden_part,
    path_of,
)

_PYTHON = frozenset({"enumerate", "zip", "iter", "next", "reversed", "super", "type", "open", "id", "callable"})
FOLLOWED_DEPTH = 3
FOLLOWED_BUDGET = 6_000
_NO_ROW = api.Row("", "", "", ())
_DETACHED = frozenset({"data"})
_PLAIN_PARTS = frozenset({"device", "dtype", "requires_grad", "grad_fn", "is_cuda", "ndim"})


class Machine(Effects):
    """The whole interpreter of one path."""

    def free_name(self, name: str, node: ir.NodeId) -> Value:
        """A name that nothing in the file binds: one of Python's own, or unknown."""
        if name in BUILTINS or name in _PYTHON:
            return Canonical(f"builtins.{name}")
        if name in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[name]
        return Opaque(name, node=node)

    def bound_value(self, frame: Frame, name: str) -> Value:
        """What a name of a frame holds; an import that the project has is followed into its file now."""
        value = frame.names.get(name)
        if isinstance(value, Deferred):
            followed = None if self._is_known(value.target) else self.follow(value.target, value.frame)
            value = frame.names[name] = Canonical(value.target) if followed is None else followed
        return value

    def _is_known(self, target: str) -> bool:
        """Whether the tables describe a thing: it is not followed, although the project may be that library itself."""
        registry = self.program.registry
        return not target.startswith(".") and (registry.find(target) is not None or registry.is_class(target))

    def import_all(self, target: str, frame: Frame) -> None:
        """`from target import *`, if the project has that module."""
        inner = self._frame_of(target, frame)
        if inner is not None and not inner[1]:
            for name, value in inner[0].names.items():
                if not name.startswith("_"):
                    frame.bind(name, value)

    def follow(self, target: str, frame: Frame | None) -> Value:
        """The value of a dotted name of the project, None if it is not the project's or only a module.

        What the tables describe is not followed, even into the library's own source.
        """
        registry = self.program.registry
        if registry.find(target) is not None or registry.is_class(target):
            return None
        found = self._frame_of(target, frame) if frame is not None else None
        if found is None or not found[1]:
            return None
        inner, rest = found
        name, _, attribute = rest.partition(".")
        value = self.bound_value(inner, name)
        for part in attribute.split(".") if attribute and value is not None else ():
            value = self.get_attribute(value, part, -1)
        return value

    def _frame_of(self, target: str, frame: Frame) -> tuple[Frame, str] | None:
        project = self.program.project
        if project is None or len(self.following) > FOLLOWED_DEPTH:
            return None
        origin = frame.module.origin or self.program.module
        found = project.resolve(target, origin.filename)
        if found is None or found[0].filename in self.following:
            return None
        return self._module_frame(found[0], project), found[1]

    def _module_frame(self, module: Module, project: Project) -> Frame:
        """The names of a module of the project, from running its statements leniently, once a path."""
        known = self.program.module_frames.get(module.filename)
        if known is not None:
            return known
        made = Frame("<module>", origin=module)
        self.program.module_frames[module.filename] = made
        self.program.relevance.extend(module.body, project.summary(module, definitions_in))
        self.following.append(module.filename)
        before, budget = self.setting_up, self.budget
        self.setting_up, self.budget = True, FOLLOWED_BUDGET
        try:
            for statement in module.body:
                if isinstance(statement, (ir.For, ir.While, ir.If, ir.With)):
                    continue
                try:
                    self.execute((statement,), made)
                except (Raised, ReturnFrom):
                    continue
        except Stopped:
            pass
        finally:
            self.setting_up, self.budget = before, budget
            self.following.pop()
        return made

    def no_arguments(self) -> Arguments:
        return Arguments()

    def is_loader(self, value: Value) -> bool:
        return isinstance(value, Object) and value.role is api.Role.LOADER

    def set_rank_divisor(self, by: Value) -> None:
        """Gradients are summed over the ranks and divided by `by`, no longer by their number."""
        known = self.as_number(by)
        if known is not None and known.as_int() == 1:
            self.trace.world = self.world()
            self.assume("gradients are summed over the ranks, not averaged")
            self.trace.sums_ranks = True

    # -------------------------------------------------------------------------------------- attributes

    def get_attribute(self, value: Value, name: str, node: ir.NodeId) -> Value:
        if isinstance(value, Object):
            return self._of_object(value, name, node)
        if isinstance(value, Opaque):
            return self._of_opaque(value, name, node)
        if isinstance(value, Canonical):
            return Canonical(f"{value.name}.{name}")
        if isinstance(value, ClassValue):
            member = self.find_member(value, name)
            if isinstance(member, FunctionValue) and _is_decorated(member, "classmethod"):
                return self.bind_method(member, value)
            return member if member is not None else Opaque(f"{value.definition.name}.{name}", node=node)
        if isinstance(value, Form):
            if name in _DETACHED:
                return self.detached(value)
            if name in _PLAIN_PARTS:
                return Opaque(f"{value.text}.{name}")
            return Method(value, name, node)
        if isinstance(value, Mapping) and name in value.items:
            return value.items[name]
        if isinstance(value, (Items, Mapping, Num, Stream, FunctionValue, Super, str)):
            return Method(value, name, node)
        if value is None:
            return Opaque(f"None.{name}", node=node)
        return self.opaque(f"{path_of(value)}.{name}", value, node=node)

    def _of_object(self, value: Object, name: str, node: ir.NodeId) -> Value:
        if name in value.attributes:
            return self.owned(value.attributes[name], value)
        if value.instance is not None:
            member = self.find_member(value.instance, name)
            if isinstance(member, FunctionValue):
                return self._member(member, value, node)
            if member is not None:
                return member
        registry = self.program.registry
        if value.canonical:
            operand = registry.attribute(value.canonical, name)
            if operand is not None:
                return self._listed(operand, value, name, node)
            if registry.method(value.canonical, name) is not None:
                return Method(value, name, node)
        if name in ("module", "_orig_mod") and value.role in (api.Role.MODEL, api.Role.WRAPPED_MODEL, api.Role.ENGINE):
            return value
        if (value.path, name) in self.fields:
            return self.fields[(value.path, name)]
        made = Opaque(f"{value.path}.{name}", value.lineage, modules=value.modules, node=node)
        value.attributes[name] = made
        return made

    def _member(self, member: FunctionValue, value: Object, node: ir.NodeId) -> Value:
        bound = self.bind_method(member, value)
        if _is_decorated(member, "property", "cached_property") and isinstance(bound, FunctionValue):
            return self.call_function(bound, Arguments(), node)
        return bound

    def _listed(self, operand: api.Operand, value: Object, name: str, node: ir.NodeId) -> Value:
        """An attribute that the tables know."""
        if isinstance(operand, api.Receiver):
            if name == "param_groups":
                return Opaque(
                    f"{value.path}.param_groups", modules=value.modules, kind="groups", source=value, node=node
                )
            return value
        found = self.operand(operand, LibraryCall(_NO_ROW, value, {}, node))
        if isinstance(operand, api.Part):
            value.attributes[name] = found
        return found

    def _of_opaque(self, value: Opaque, name: str, node: ir.NodeId) -> Value:
        if (value.path, name) in self.fields:
            return self.fields[(value.path, name)]
        if value.path in self.objects and not value.lineage:
            return self._of_object(self.objects[value.path], name, node)
        path = f"{value.path}.{name}"
        if name == "grad":
            if value.kind in ("parameter", "parameters"):
                return Opaque(path, modules=value.modules, kind="gradient", source=value.source, node=node)
            self._learn_parameters(value)
            return Opaque(path, value.lineage, kind="", node=node)
        if name == "data" and value.kind in ("parameter", "gradient"):
            return value
        if name == "shape":
            return Opaque(path, value.lineage, kind="shape", node=node)
        if name in _PLAIN_PARTS:
            return Opaque(path, node=node)
        if name == "param_groups":
            owner = self.objects.get(value.path) or Object(value.path, api.Role.OPTIMIZER, "torch.optim.Optimizer")
            if not value.lineage:
                self.objects[value.path] = owner
            return Opaque(path, modules=value.modules, kind="groups", source=owner, node=node)
        gradient = value.gradient and name not in _DETACHED
        hidden = hidden_part(value, name)
        return Opaque(
            path, value.lineage, gradient, value.modules, value.facts, node, source=value.source, hidden=hidden
        )

    def _learn_parameters(self, element: Opaque) -> None:
        """What has a gradient, in a loop over an unknown collection that runs no backward itself, is a parameter."""
        loop = self.loops[-1] if self.loops else None
        collection = element.path.removesuffix(f"[{loop.iteration}]") if loop is not None else element.path
        if loop is None or loop.key != f"elements of {collection}" or not loop.is_data:
            return
        if not any(event.kind == BACKWARD and loop.node in dict(event.loops) for event in self.trace.events):
            self.knowledge.parameters[collection] = None
            raise Restart


def _is_decorated(member: FunctionValue, *names: str) -> bool:
    """Whether a decorator of a function has one of the names, whatever it is taken of or called with."""
    decorators = member.function.decorators if isinstance(member.function, ir.Function) else ()
    return any(_last_name(decorator) in names for decorator in decorators)


def _last_name(decorator: ir.Expression) -> str:
    return last_name(decorator.function if isinstance(decorator, ir.Call) else decorator)
