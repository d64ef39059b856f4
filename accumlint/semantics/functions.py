"""Functions and classes of the file: followed with the arguments that they are given."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from accumlint.reading import ir
from accumlint.reading.project import FOREIGN
from accumlint.semantics.expressions import GeneratorLeft
from accumlint.semantics.frames import Frame
from accumlint.semantics.knowledge import CALL_BUDGET, STEPS_NAME
from accumlint.semantics.loops import Loops
from accumlint.semantics.machine import DEPTH_BUDGET, Raised, ReturnFrom, Stopped
from accumlint.semantics.values import (
    ClassValue,
    Form,
    FunctionValue,
    Items,
    Mapping,
    Object,
    Opaque,
    Stream,
    Value,
    path_of,
)

MODULE = "torch.nn.Module"
OPTIMIZER = "torch.optim.Optimizer"
OUT_OF_CALLS = "functions call each other too often within one iteration"
_SHOWS = re.compile(r"print|log|write|add_scalar|wandb|info|postfix|track", re.I)
"""Names of what shows numbers to people."""
_HOLDS_LOSS = frozenset({Form, Items, Mapping, Opaque})


@dataclass(slots=True)
class Arguments:
    """Evaluated arguments; `written` are their expressions, in the same shape."""

    positional: list[Value] = field(default_factory=list)
    keywords: dict[str, Value] = field(default_factory=dict)
    written: list[ir.Expression | None] = field(default_factory=list)
    written_keywords: dict[str, ir.Expression] = field(default_factory=dict)
    open_ended: bool = False  # a `*args` or `**kwargs` of unknown contents

    @property
    def values(self) -> list[Value]:
        return [*self.positional, *self.keywords.values()]


class Functions(Loops):
    """Runs functions, generators and constructors of the file."""

    def call_function(self, callee: FunctionValue, arguments: Arguments, node: ir.NodeId) -> Value:
        """Follow a function of the file."""
        function = callee.function
        key = f"{callee.name}@{function.node}"
        if len(self.stack) >= DEPTH_BUDGET or self.stack.count(key) > 1:
            return self.opaque(f"{callee.name}(...)", *arguments.values, node=node)
        self._note_followed(function.node)
        frame = Frame(callee.name, callee.closure, owner=callee.owner, receiver=callee.bound)
        self._bind_parameters(callee, arguments, frame)
        self.stack.append(key)
        self.callers.append(node)
        before, anchor = self.no_grad, self.anchor
        if 0 <= node < FOREIGN and function.node >= FOREIGN:
            self.anchor = node
        elif function.node < FOREIGN:
            self.anchor = -1
        self.no_grad += int(callee.no_grad)
        try:
            if isinstance(function, ir.Lambda):
                return self.evaluate(function.body, frame)
            if function.is_generator:
                return self._run_generator(function, frame)
            try:
                self.execute(function.body, frame)
            except ReturnFrom as returned:
                return returned.value
            except Raised as raised:
                if raised.kind != "NotImplementedError":
                    raise
                return self.opaque(f"{callee.name}(...)", *arguments.values, node=node)  # a subclass defines it
            return None
        finally:
            self.no_grad, self.anchor = before, anchor
            self.callers.pop()
            self.stack.pop()

    def _note_followed(self, node: ir.NodeId) -> None:
        """Calls that multiply end the path long before its steps are spent."""
        if self.setting_up or self.comprehending:
            return
        places = self._places()
        before, count = self.followed_here.get(node, (places, 0))
        count = count + 1 if before == places else 1
        if count > CALL_BUDGET:
            raise Stopped(OUT_OF_CALLS)
        self.followed_here[node] = (places, count)

    def _run_generator(self, function: ir.Function, frame: Frame) -> Value:
        """A generator of the file is run at once, as far as it is wanted."""
        frame.collected = []
        frame.wanted = 2 * self.knowledge.window + 1
        finite = True
        try:
            self.execute(function.body, frame)
        except ReturnFrom:
            pass
        except GeneratorLeft:
            finite = False
        items: list[Value] = frame.collected or []
        return Stream(iter(items), finite, f"generator@{function.node}", len(items))

    def _bind_parameters(self, callee: FunctionValue, arguments: Arguments, frame: Frame) -> None:
        given = [value for name, value in callee.partial if name is None] + arguments.positional
        keywords = {name: value for name, value in callee.partial if name is not None} | arguments.keywords
        if callee.is_bound:
            given = [callee.bound, *given]
        for parameter in callee.function.parameters:
            if parameter.kind == "*":
                frame.names[parameter.name] = Items("tuple", list(given))
                given = []
            elif parameter.kind == "**":
                rest = {name: value for name, value in keywords.items() if name not in ("*", "**")}
                unknown = keywords.get("**")
                frame.names[parameter.name] = Mapping({str(name): value for name, value in rest.items()}, unknown)
            elif given and parameter.kind == "positional":
                frame.names[parameter.name] = given.pop(0)
            elif parameter.name in keywords:
                frame.names[parameter.name] = keywords.pop(parameter.name)
            elif arguments.open_ended:
                source = arguments.keywords.get("**", arguments.keywords.get("*"))
                frame.names[parameter.name] = self.opaque(f"{path_of(source)}.{parameter.name}", source)
            elif parameter.default is not None:
                default = self.evaluate(parameter.default, callee.closure)
                unset = default == 1 and type(default) is int and STEPS_NAME.search(parameter.name)
                frame.names[parameter.name] = Opaque(parameter.name) if unset else default
            else:
                frame.names[parameter.name] = Opaque(parameter.name)

    def instantiate(self, owner: ClassValue, arguments: Arguments, node: ir.NodeId) -> Value:
        """Make an instance of a class of the file and run its `__init__`."""
        canonical = self.canonical_base(owner)
        made = Object(
            f"{owner.definition.name}", self.program.registry.role_of(canonical) if canonical else None, canonical,
            instance=owner, node=node,
        )  # fmt: skip
        made.modules = frozenset({self.distinct(made.path)})  # two instances have two sets of parameters
        init = self.find_member(owner, "__init__")
        if isinstance(init, FunctionValue):
            self.call_function(replace(init, bound=made, is_bound=True), arguments, node)
        else:
            self._fill_fields(made, owner, arguments)
        if canonical and self.program.registry.is_subclass(canonical, OPTIMIZER):
            made.of = tuple(arguments.positional[:1])
            self.store_of(made)
        return made

    def _fill_fields(self, made: Object, owner: ClassValue, arguments: Arguments) -> None:
        """The generated `__init__` of a dataclass or named tuple."""
        given = list(arguments.positional)
        for statement in owner.definition.body:
            if isinstance(statement, ir.Declare) and isinstance(statement.target, ir.Name):
                name = statement.target.id
            elif isinstance(statement, ir.Assign) and statement.annotation is not None:
                target = statement.targets[0]
                name = target.id if isinstance(target, ir.Name) else ""
            else:
                continue
            if given:
                made.attributes[name] = given.pop(0)
            elif name in arguments.keywords:
                made.attributes[name] = arguments.keywords[name]

    def iterate_instance(self, value: Object, node: ir.NodeId) -> Value:
        """What a `for` over an instance of a class of the file runs over: its `__iter__`, if it has one."""
        if value.instance is None:
            return None
        member = self.find_member(value.instance, "__iter__")
        if not isinstance(member, FunctionValue):
            return None
        made = self.call_function(replace(member, bound=value, is_bound=True), Arguments(), node)
        return None if made is value else made

    def note_logged(self, receiver: str, name: str, values: Sequence[Value], node: ir.NodeId) -> None:
        """Remember losses that are shown to people."""
        losses = [loss for value in values if type(value) in _HOLDS_LOSS for loss in losses_in(value)]
        if losses and _SHOWS.search(f"{receiver}.{name}"):
            self.trace.logged += [(node, loss) for loss in losses]


def losses_in(value: Value, depth: int = 3) -> list[Form]:
    """The losses inside a value that is printed."""
    if isinstance(value, Form):
        return [value]
    if depth and isinstance(value, Items):
        return [loss for item in value.items for loss in losses_in(item, depth - 1)]
    if depth and isinstance(value, Mapping):
        return [loss for item in value.items.values() for loss in losses_in(item, depth - 1)]
    if depth and isinstance(value, Opaque) and value.parts is not None and value.parts[0] == "format":
        return [loss for item in value.parts[1] for loss in losses_in(item, depth - 1)]
    return []
