"""The interpreter of statements."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any, TypeAlias

from accumlint.apis.language import Role
from accumlint.reading import ir
from accumlint.semantics.arithmetic import GRADIENTS
from accumlint.semantics.branches import Branches
from accumlint.semantics.frames import Frame
from accumlint.semantics.knowledge import STEPS_NAME
from accumlint.semantics.machine import BreakLoop, ContinueLoop, Raised, Restart, ReturnFrom
from accumlint.semantics.values import (
    Canonical,
    ClassValue,
    Context,
    Deferred,
    Form,
    FunctionValue,
    Items,
    Mapping,
    Object,
    Opaque,
    Value,
    carries_gradient,
    hidden_part,
    lineage_of,
    path_of,
)

_MADE = re.compile(r"(\w+\.)*[A-Z]\w*\(")
"""How the path of what a class made begins."""
_NO_GRAD = ("torch.no_grad", "torch.inference_mode", "torch.autograd.no_grad")


class Statements(Branches):
    """Executes IR statements."""

    def execute(self, block: tuple[ir.Statement, ...], frame: Frame) -> None:
        for statement in block:
            self.spend()
            _EXECUTORS[type(statement)](self, statement, frame)

    # ----------------------------------------------------------------------------------------- bindings

    def exec_assign(self, node: ir.Assign, frame: Frame) -> None:
        value = self.evaluate(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def exec_declare(self, node: ir.Declare, frame: Frame) -> None:
        return None

    def exec_augment(self, node: ir.Augment, frame: Frame) -> None:
        old = self.evaluate(node.target, frame)
        value = self.evaluate(node.value, frame)
        if isinstance(old, Opaque) and old.kind == "gradient":
            self.scale_gradient(old, node.operator, value, node.node)
            return
        if isinstance(old, Items) and node.operator == "+":
            old.items += self.known_items(value) or [value]
            return
        self._start_counter(old, node.operator, value)
        self.assign(node.target, self.binary(node.operator, old, value, node.node), frame)

    def _start_counter(self, old: Value, operator: str, value: Value) -> None:
        """An unknown that is counted up by whole numbers is a counter: it starts at 0, and the path runs again."""
        if operator != "+" or not isinstance(old, Opaque) or old.lineage or old.gradient or self.setting_up:
            return
        step = self.as_number(value)
        if step is None or old.parts is not None or old.depth or old.path in self.knowledge.numbers:
            return  # with a depth it was worked out, only too deeply for its parts to be kept
        self.knowledge.numbers[old.path] = Fraction(0)
        raise Restart

    def assign(self, target: ir.Expression, value: Value, frame: Frame) -> None:
        if isinstance(target, ir.Name):
            frame.bind(target.id, value)
        elif isinstance(target, ir.Attribute):
            self.set_attribute(self.evaluate(target.value, frame), target.name, value, target.node)
        elif isinstance(target, ir.Subscript):
            self._set_item(self.evaluate(target.value, frame), self.evaluate(target.index, frame), value)
        elif isinstance(target, ir.Display):
            self._unpack(target, value, frame)
        elif isinstance(target, ir.Starred):
            self.assign(target.value, value, frame)

    def _set_item(self, container: Value, index: Value, value: Value) -> None:
        if isinstance(container, Mapping):
            if isinstance(index, (str, int, float, bool, bytes, type(None))):
                container.items[index] = value
            else:
                container.rest = value
        elif isinstance(container, Items):
            place = self.as_number(index)
            whole = None if place is None else place.as_int()
            if whole is not None and -len(container.items) <= whole < len(container.items):
                container.items[whole] = value
        elif isinstance(container, Opaque) and isinstance(index, Opaque) and index.kind == "mask":
            ignored = value < 0 if isinstance(value, (int, float)) else isinstance(value, Opaque)
            if ignored and not lineage_of(value):  # a class of its own, as in `labels[labels > 1] = 1`, counts
                self.filled.add(container.path)
        elif isinstance(container, Opaque) and value == -100 and lineage_of(index):
            self.filled.add(container.path)  # `labels[:, :prompt] = -100`
        elif isinstance(container, (Opaque, Object)) and isinstance(index, str):
            self.fields[(path_of(container), f"[{index}]")] = value

    def _unpack(self, target: ir.Display, value: Value, frame: Frame) -> None:
        wanted = len(target.elements)
        starred = next((i for i, e in enumerate(target.elements) if isinstance(e, ir.Starred)), None)
        known = self.known_items(value, limit=64)
        if known is not None and starred is not None and len(known) >= wanted - 1:
            after = wanted - starred - 1
            middle = Items("list", known[starred : len(known) - after])
            known = [*known[:starred], middle, *known[len(known) - after :]]
        if known is not None and len(known) == wanted:
            parts: list[Value] = list(known)
        else:
            parts = [self._part(value, place, target.node) for place in range(wanted)]
        for element, part in zip(target.elements, parts, strict=True):
            self.assign(element, part, frame)

    def _part(self, value: Value, place: int, node: ir.NodeId) -> Value:
        path = f"{path_of(value)}[{place}]"
        if isinstance(value, Opaque) and value.kind == "shape":
            return self.size_of(value, path)
        if isinstance(value, Form):
            return self.opaque(path, value, node=node)
        result = self.opaque(path, value, node=node, gradient=carries_gradient(value))
        if isinstance(value, Opaque):
            hidden = hidden_part(value, place)
            return Opaque(path, result.lineage, result.gradient, value.modules, value.facts, node, hidden=hidden)
        return result

    def set_attribute(self, receiver: Value, name: str, value: Value, node: ir.NodeId) -> None:
        if isinstance(receiver, Opaque) and receiver.kind == "parameter" and name == "grad":
            self._set_gradient(receiver, value, node)
            return
        canonical = receiver.canonical if isinstance(receiver, Object) else ""
        row = self.program.registry.setter(canonical or None, name)
        if row is not None and isinstance(receiver, (Object, Opaque)):
            self.perform_setter(row, receiver, value, node)
        if self.guessing and value is False and self._is_open_switch(receiver, name):
            return
        if isinstance(receiver, Object):
            receiver.attributes[name] = self._as_part(value, receiver)
        elif isinstance(receiver, Opaque):
            self.fields[(receiver.path, name)] = value
        elif isinstance(receiver, ClassValue):
            receiver.members[name] = value

    def _is_open_switch(self, receiver: Value, name: str) -> bool:
        """Whether an attribute is an open switch: turned off in a branch that was guessed, it stays open."""
        if not isinstance(receiver, Object) or (receiver.instance is None and name not in receiver.attributes):
            return False
        held = receiver.attributes.get(name)
        if held is None and receiver.instance is not None:
            held = self.find_member(receiver.instance, name)
        return isinstance(held, Opaque) and not held.lineage

    def _as_part(self, value: Value, owner: Object) -> Value:
        """An unknown module that becomes a part of a module: two of them made in the same words are two."""
        is_module = owner.role is Role.MODEL and owner.instance is not None
        if not is_module or not isinstance(value, Opaque) or value.lineage or not _MADE.match(value.path):
            return value
        return replace(value, path=self.distinct(value.path))

    def _set_gradient(self, parameter: Opaque, value: Value, node: ir.NodeId) -> None:
        """`p.grad = None`, or `p.grad = p.grad / n`."""
        if value is None:
            self.clear_gradients(parameter, node)
        elif isinstance(value, Opaque) and value.kind == "scaled gradient":
            self._set_scaled(parameter, value, node)
        elif isinstance(value, Opaque) and "zeros" in value.path:
            self.clear_gradients(parameter, node)
        elif not (isinstance(value, Opaque) and value.kind == "gradient"):
            self.trace.exempt = self.trace.exempt or "gradients are set by hand"

    def _set_scaled(self, parameter: Opaque, value: Opaque, node: ir.NodeId) -> None:
        """`p.grad = p.grad / a * b`: the factors of its own gradient, one after the other."""
        factors: list[tuple[str, Value]] = []
        while value.parts is not None:
            word, (left, right) = value.parts
            of_left = isinstance(left, Opaque) and left.kind in GRADIENTS
            factors.append((word, right if of_left else left))
            rest = left if of_left else right
            if not isinstance(rest, Opaque):
                break
            value = rest
        if value.path != f"{parameter.path}.grad":
            self.trace.exempt = self.trace.exempt or "gradients are set by hand"
            return
        for word, by in reversed(factors):
            self.scale_gradient(parameter, word, by, node)

    def exec_delete(self, node: ir.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ir.Name):
                frame.names.pop(target.id, None)
            elif isinstance(target, ir.Subscript):
                container = self.evaluate(target.value, frame)
                if isinstance(container, Items):
                    container.items.clear()

    def exec_scope(self, node: ir.Scope, frame: Frame) -> None:
        for name in node.names:
            if node.kind == "global":
                frame.shared[name] = frame.module
            elif frame.parent is not None:
                frame.shared[name] = frame.parent.find(name) or frame.parent

    def exec_import(self, node: ir.Import, frame: Frame) -> None:
        for name, target in node.bindings:
            if name == "*":
                self.import_all(target, frame)
            else:
                frame.bind(name, Canonical(target) if self.program.project is None else Deferred(target, frame))

    def exec_function(self, node: ir.Function, frame: Frame) -> None:
        no_grad = any(self._is_no_grad(decorator, frame) for decorator in node.decorators)
        frame.bind(node.name, FunctionValue(node, frame, no_grad=no_grad))

    def _is_no_grad(self, decorator: ir.Expression, frame: Frame) -> bool:
        expression = decorator.function if isinstance(decorator, ir.Call) else decorator
        if not isinstance(expression, (ir.Attribute, ir.Name)):
            return False
        value = self.evaluate(expression, frame)
        return isinstance(value, Canonical) and self.program.registry.canonical(value.name) in _NO_GRAD

    def exec_class(self, node: ir.Class, frame: Frame) -> None:
        bases = tuple(self.evaluate(base, frame) for base in node.bases if not isinstance(base, ir.Starred))
        inner = Frame(node.name, frame)
        value = ClassValue(node, frame, bases, inner.names)
        frame.bind(node.name, value)
        for statement in node.body:
            self.spend()
            if isinstance(statement, ir.Function):
                no_grad = any(self._is_no_grad(decorator, frame) for decorator in statement.decorators)
                inner.names[statement.name] = FunctionValue(statement, frame, owner=value, no_grad=no_grad)
            elif isinstance(statement, (ir.Assign, ir.Class, ir.Import)):
                _EXECUTORS[type(statement)](self, statement, inner)
                if isinstance(statement, ir.Assign) and statement.annotation is not None:
                    self._free_steps(node.name, statement, inner)

    def _free_steps(self, owner: str, statement: ir.Assign, inner: Frame) -> None:
        """A field that holds the number of steps, or a switch, is there to be set: its default says nothing."""
        target = statement.targets[0]
        value = inner.names.get(target.id) if isinstance(target, ir.Name) else None
        if isinstance(target, ir.Name) and (
            isinstance(value, bool) or (STEPS_NAME.search(target.id) and isinstance(value, int))
        ):
            inner.names[target.id] = Opaque(f"{owner}.{target.id}", node=statement.node)

    # --------------------------------------------------------------------------------------- other blocks

    def exec_with(self, node: ir.With, frame: Frame) -> None:
        entered: list[Context] = []
        before = self.no_grad
        try:
            for expression, target in node.items:
                value = self.evaluate(expression, frame)
                if isinstance(value, Context):
                    entered.append(value)
                    value = self.enter(value)
                if target is not None:
                    self.assign(target, value, frame)
            self.execute(node.body, frame)
        finally:
            for context in reversed(entered):
                self.leave(context)
            self.no_grad = before

    def exec_try(self, node: ir.Try, frame: Frame) -> None:
        kinds = frozenset(_handled(handler) for handler in node.handlers)
        self.catching.append(kinds)
        caught: Raised | None = None
        try:
            try:
                self.execute(node.body, frame)
            finally:
                self.catching.pop()
        except Raised as raised:
            caught = raised
        try:
            if caught is not None:
                self._handle(caught, node, frame)
            else:
                self.execute(node.orelse, frame)
        finally:
            self.execute(node.final, frame)

    def _handle(self, raised: Raised, node: ir.Try, frame: Frame) -> None:
        for handler in node.handlers:
            if _handled(handler) in ("", raised.kind, "Exception", "BaseException"):
                if handler.name is not None:
                    frame.bind(handler.name, Opaque(raised.kind))
                self.execute(handler.body, frame)
                return
        raise raised

    def exec_evaluate(self, node: ir.Evaluate, frame: Frame) -> None:
        self.evaluate(node.value, frame)

    def exec_return(self, node: ir.Return, frame: Frame) -> None:
        raise ReturnFrom(None if node.value is None else self.evaluate(node.value, frame))

    def exec_raise(self, node: ir.Raise, frame: Frame) -> None:
        expression = node.value.function if isinstance(node.value, ir.Call) else node.value
        raise Raised(path_of(self.evaluate(expression, frame)).rpartition(".")[2] if expression is not None else "")

    def exec_assert(self, node: ir.Assert, frame: Frame) -> None:
        self.evaluate(node.test, frame)

    def exec_break(self, node: ir.Break, frame: Frame) -> None:
        raise BreakLoop

    def exec_continue(self, node: ir.Continue, frame: Frame) -> None:
        raise ContinueLoop

    def exec_pass(self, node: ir.Pass, frame: Frame) -> None:
        return None


def _handled(handler: ir.Handler) -> str:
    kind = handler.kind
    if kind is None:
        return ""
    if isinstance(kind, ir.Attribute):
        return kind.name
    if isinstance(kind, ir.Display):
        return "Exception"
    return kind.id if isinstance(kind, ir.Name) else "Exception"


_Executor: TypeAlias = Callable[[Any, Any, Frame], None]
_EXECUTORS: dict[type, _Executor] = {
    ir.Assign: Statements.exec_assign,
    ir.Declare: Statements.exec_declare,
    ir.Augment: Statements.exec_augment,
    ir.Evaluate: Statements.exec_evaluate,
    ir.If: Statements.exec_if,
    ir.For: lambda machine, node, frame: machine.exec_for(node, frame),
    ir.While: lambda machine, node, frame: machine.exec_while(node, frame),
    ir.With: Statements.exec_with,
    ir.Try: Statements.exec_try,
    ir.Match: Statements.exec_match,
    ir.Return: Statements.exec_return,
    ir.Raise: Statements.exec_raise,
    ir.Assert: Statements.exec_assert,
    ir.Delete: Statements.exec_delete,
    ir.Break: Statements.exec_break,
    ir.Continue: Statements.exec_continue,
    ir.Pass: Statements.exec_pass,
    ir.Import: Statements.exec_import,
    ir.Scope: Statements.exec_scope,
    ir.Function: Statements.exec_function,
    ir.Class: Statements.exec_class,
}
