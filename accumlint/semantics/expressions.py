"""The interpreter of expressions."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from accumlint.apis.language import NoGrad
from accumlint.reading import ir
from accumlint.semantics.arithmetic import LARGEST
from accumlint.semantics.comparisons import Comparisons
from accumlint.semantics.frames import Frame
from accumlint.semantics.knowledge import STEPS_NAME
from accumlint.semantics.machine import OUT_OF_STEPS, Stopped
from accumlint.semantics.numbers import Num
from accumlint.semantics.similarity import product_facts
from accumlint.semantics.values import (
    NO_FACTS,
    Canonical,
    ClassValue,
    Deferred,
    Fact,
    Form,
    FunctionValue,
    Items,
    Mapping,
    Object,
    Opaque,
    RangeValue,
    SliceValue,
    Stream,
    Value,
    carries_gradient,
    derived,
    hidden_part,
    lineage_of,
    path_of,
)

_MASK_NAME = re.compile(r"(^|_)(mask|valid|keep)s?(_|$)", re.I)
_PLAIN = (bool, int, float, str, bytes, type(None))
_NOT_NONE = (Num, Form, Object, Items, Mapping, FunctionValue, ClassValue, Canonical, Stream, RangeValue, SliceValue)


class Expressions(Comparisons):
    """Evaluates IR expressions to values."""

    def evaluate(self, node: ir.Expression, frame: Frame) -> Value:
        self.budget -= 1  # `spend`, written out: this is the one place that is called for each node
        self.spent += 1
        if self.budget < 0:
            raise Stopped(OUT_OF_STEPS)
        return _EVALUATORS[type(node)](self, node, frame)

    def eval_constant(self, node: ir.Constant, frame: Frame) -> Value:
        if type(node.value) is int and node.value > LARGEST:
            return Opaque("a large number")
        return node.value  # type: ignore[no-any-return]

    def eval_name(self, node: ir.Name, frame: Frame) -> Value:
        name = node.id
        found = frame.find(name)
        if found is not None:
            value = found.names.get(name)
            return self.bound_value(found, name) if isinstance(value, Deferred) else value
        self.need(name, frame)
        return self.free_name(name, node.node)

    def eval_attribute(self, node: ir.Attribute, frame: Frame) -> Value:
        return self.get_attribute(self.evaluate(node.value, frame), node.name, node.node)

    def eval_call(self, node: ir.Call, frame: Frame) -> Value:
        return self.call_expression(node, frame)

    def eval_binary(self, node: ir.Binary, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        right = self.evaluate(node.right, frame)
        result = self.binary(node.operator, left, right, node.node)
        if node.operator == "@" and isinstance(result, Opaque):
            result = replace(
                result, facts=result.facts | product_facts("@", (left, right), (node.left, node.right), node.node)
            )
        return result

    def eval_unary(self, node: ir.Unary, frame: Frame) -> Value:
        value = self.evaluate(node.operand, frame)
        if node.operator == "not":
            truth = self.truth(value)
            if truth is not None:
                return not truth
            wants = value.wants if isinstance(value, Opaque) else ()
            return Opaque(
                f"not {path_of(value)}", lineage_of(value), node=node.node, parts=("not", (value,)), wants=wants
            )
        if node.operator == "-":
            return self.negated(value, node.node)
        if node.operator == "~" and isinstance(value, bool):
            return not value
        if isinstance(value, Opaque) and node.operator == "~":
            return Opaque(f"~{value.path}", value.lineage, False, value.modules, value.facts, node.node, kind="mask")
        return value

    def eval_boolean(self, node: ir.Boolean, frame: Frame) -> Value:
        """`and` / `or` with Python's meaning where it is decided; else an opaque condition that keeps its parts."""
        stop = node.operator == "or"
        kept: list[Value] = []
        decided_numbers = False
        for index, part in enumerate(node.values):
            value = self.evaluate(part, frame)
            truth = self.truth(value)
            if truth is stop:
                return value
            if truth is None:
                kept.append(value)
            elif index == len(node.values) - 1 and not kept:
                return value
            else:
                decided_numbers |= isinstance(value, bool)
        if not kept:
            return not stop
        if len(kept) == 1 and not decided_numbers:
            return kept[0]
        return self.joined(node.operator, tuple(kept), node.node, beside_boundary=decided_numbers)

    def joined(self, word: str, parts: tuple[Value, ...], node: ir.NodeId, *, beside_boundary: bool) -> Opaque:
        """An undecided `and` / `or`; beside a decided boundary, an unknown disjunct means "the last microbatch"."""
        lineage = frozenset[Any]().union(*(lineage_of(part) for part in parts))
        wants = tuple(want for part in parts if isinstance(part, Opaque) for want in part.wants)
        text = f" {word} ".join(path_of(part) for part in parts)
        kind = "last" if beside_boundary and word == "or" and not wants else "condition"
        return Opaque(text, lineage, node=node, parts=(word, parts), wants=wants, kind=kind)

    def eval_compare(self, node: ir.Compare, frame: Frame) -> Value:
        left = self.evaluate(node.left, frame)
        result: Value = True
        for word, part in zip(node.operators, node.comparators, strict=True):
            right = self.evaluate(part, frame)
            written = (type(node.left) is ir.Constant, type(part) is ir.Constant)
            result = self.compared(word, left, right, node.node, written)
            if result is False:
                return False
            left = right
        return result

    def eval_subscript(self, node: ir.Subscript, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        index = self.evaluate(node.index, frame)
        return self.subscript(value, index, node, frame)

    def subscript(self, value: Value, index: Value, node: ir.Subscript, frame: Frame) -> Value:
        if isinstance(value, Items):
            return self._item(value, index, node)
        if isinstance(value, Mapping) and isinstance(index, _PLAIN):
            if index in value.items:
                return value.items[index]
            return value.rest if value.rest is not None else self.opaque(f"{{...}}[{index!r}]", value, node=node.node)
        if isinstance(value, str) and isinstance(index, int) and -len(value) <= index < len(value):
            return value[index]
        if isinstance(value, Object) and isinstance(index, str) and index in value.attributes:
            return value.attributes[index]
        if isinstance(value, Form):
            return self._part_of_form(value, index, node)
        if isinstance(value, Canonical):
            return value
        return self._part_of_opaque(value, index, node, frame)

    def _item(self, value: Items, index: Value, node: ir.Subscript) -> Value:
        place = self.as_number(index)
        if place is not None and place.as_int() is not None:
            number_ = place.as_int()
            if number_ is not None and -len(value.items) <= number_ < len(value.items):
                return value.items[number_]
        if isinstance(index, SliceValue):
            bounds = [None if b is None else self.as_number(b) for b in (index.lower, index.upper, index.step)]
            given = (index.lower, index.upper, index.step)
            if all((n is None) == (b is None) for n, b in zip(bounds, given, strict=True)):
                whole = [None if n is None else n.as_int() for n in bounds]
                return Items(value.kind, value.items[slice(*whole)], value.key)
        return self.opaque(f"{path_of(value)}[{path_of(index)}]", *value.items, node=node.node)

    def _part_of_form(self, value: Form, index: Value, node: ir.Subscript) -> Value:
        """Selecting from a loss: of one value a target it stays one, else nothing is known of the part."""
        if not value.is_elementwise:
            return self.opaque(f"{value.text}[{path_of(index)}]", value, index, node=node.node)
        if isinstance(index, Opaque) and index.lineage:
            return self.with_fact(value, Fact("selection", node.node, path_of(index)))
        return value

    def _part_of_opaque(self, value: Value, index: Value, node: ir.Subscript, frame: Frame) -> Value:
        path = f"{path_of(value)}[{path_of(index)}]"
        known = value if isinstance(value, Opaque) else None
        if known is not None and known.kind == "shape":
            return self.size_of(value, path)
        lineage, modules, gradient = derived((value, index))
        facts = NO_FACTS if known is None else known.facts
        first = last = index
        kind = ""
        if isinstance(index, str):
            if "label" in index:
                facts |= {Fact("labels", node.node, index)}
            kind = "parameters" if index == "params" else ""
        elif isinstance(index, Opaque):
            if index.kind == "mask" or (index.lineage and _is_named_mask(node.index)):
                facts |= {Fact("selection", node.node, index.path)}
        elif isinstance(index, Items) and index.items:
            first, last = index.items[0], index.items[-1]
            if isinstance(last, SliceValue) and last.lower == 1 and last.upper is None:
                facts |= {Fact("shifted", node.node, path)}
        lineage |= self.slice_lineage(value, first, node)
        gradient = gradient and not self.no_grad and carries_gradient(value)
        if isinstance(value, (Opaque, Object)):
            modules |= value.modules
        source = None if known is None else known.source
        hidden = hidden_part(value, index)
        return Opaque(path, lineage, gradient, modules, facts, node.node, kind=kind, source=source, hidden=hidden)

    def eval_slice(self, node: ir.Slice, frame: Frame) -> Value:
        def part(bound: ir.Expression | None) -> Value:
            return None if bound is None else self.evaluate(bound, frame)

        return SliceValue(part(node.lower), part(node.upper), part(node.step))

    def eval_conditional(self, node: ir.Conditional, frame: Frame) -> Value:
        test = self.evaluate(node.test, frame)
        if isinstance(test, Opaque) and test.points is not None:
            return self._selected(test.points, self.evaluate(node.body, frame), self.evaluate(node.orelse, frame))
        truth = self.truth(test)
        if truth is None and self._turns_gradients_off(node.body, frame):
            truth = False  # `no_grad() if frozen else nullcontext()`: what trains is the other side
        elif truth is None and self._turns_gradients_off(node.orelse, frame):
            truth = True
        if truth is None:
            within = self.program.relevance.words_within
            truth = self.choose(test, node.node, relevant=bool(within(node.body) or within(node.orelse)), default=True)
        return self.evaluate(node.body if truth else node.orelse, frame)

    def _turns_gradients_off(self, expression: ir.Expression, frame: Frame) -> bool:
        function = expression.function if isinstance(expression, ir.Call) and not expression.arguments else None
        if not isinstance(function, (ir.Name, ir.Attribute)):
            return False
        called = self.evaluate(function, frame)
        row = self.program.registry.find(called.name) if isinstance(called, Canonical) else None
        return row is not None and any(isinstance(effect, NoGrad) for effect in row.does)

    def _selected(self, points: tuple[bool | None, ...], body: Value, orelse: Value) -> Value:
        """`body if test else orelse` at each sample point on its own: `n if n > 0 else 1`."""
        first, second = self.as_number(body), self.as_number(orelse)
        if first is None or second is None:
            return body if points[0] else orelse
        at = tuple(
            None if chosen is None else (a if chosen else b)
            for chosen, a, b in zip(points, first.at, second.at, strict=True)
        )
        return Num(at, first.text, first.unknowns | second.unknowns | {"points"})

    def eval_display(self, node: ir.Display, frame: Frame) -> Value:
        items: list[Value] = []
        for element in node.elements:
            if isinstance(element, ir.Starred):
                value = self.evaluate(element.value, frame)
                known = self.known_items(value)
                items += known if known is not None else [self.opaque(f"*{path_of(value)}", value, node=node.node)]
            else:
                items.append(self.evaluate(element, frame))
        return Items(node.kind, items)

    def eval_dict(self, node: ir.DictDisplay, frame: Frame) -> Value:
        result = Mapping({})
        for key, item in node.items:
            value = self.evaluate(item, frame)
            if key is None:
                if isinstance(value, Mapping):
                    result.items |= value.items
                    result.rest = result.rest or value.rest
                else:
                    result.rest = self.opaque(f"{path_of(value)}[...]", value, node=node.node)
                continue
            name = self.evaluate(key, frame)
            if isinstance(name, _PLAIN):
                if isinstance(name, str) and value == 1 and STEPS_NAME.search(name):
                    value = Opaque(name, node=node.node)  # a default of one step is there to be overwritten
                result.items[name] = value
            else:
                result.rest = value
        return result

    def eval_lambda(self, node: ir.Lambda, frame: Frame) -> Value:
        return FunctionValue(node, frame)

    def eval_walrus(self, node: ir.Walrus, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame)
        frame.bind(node.target.id, value)
        return value

    def eval_formatted(self, node: ir.Formatted, frame: Frame) -> Value:
        values = [self.evaluate(value, frame) for value in node.values]
        lineage = frozenset[Any]().union(*(lineage_of(v) for v in values))
        return Opaque("f-string", lineage, node=node.node, parts=("format", tuple(values)))

    def eval_starred(self, node: ir.Starred, frame: Frame) -> Value:
        return self.evaluate(node.value, frame)

    def eval_await(self, node: ir.Await, frame: Frame) -> Value:
        return self.evaluate(node.value, frame)

    def eval_yield(self, node: ir.Yield, frame: Frame) -> Value:
        value = self.evaluate(node.value, frame) if node.value is not None else None
        if frame.collected is None:
            return None
        if node.is_from:
            room = (frame.wanted or 0) - len(frame.collected) or None
            frame.collected += self.elements_of(value, node.node, room)
        else:
            frame.collected.append(value)
        if frame.wanted is not None and len(frame.collected) >= frame.wanted:
            raise GeneratorLeft
        return None

    def eval_unread(self, node: ir.Unread, frame: Frame) -> Value:
        values = [self.evaluate(value, frame) for value in node.values]
        return self.opaque("?", *values, node=node.node)


class GeneratorLeft(Exception):
    """A generator has yielded as much as was wanted of it."""


def _unread(machine: Expressions, node: object, frame: Frame) -> Value:
    raise Stopped(f"no evaluator for {type(node).__name__}")


def _is_named_mask(index: ir.Expression) -> bool:
    """Whether the name of data that selects says that it is true or false for each element, not a place."""
    if isinstance(index, ir.Subscript):
        name = index.index.value if isinstance(index.index, ir.Constant) else None
    else:
        name = index.id if isinstance(index, ir.Name) else index.name if isinstance(index, ir.Attribute) else None
    return isinstance(name, str) and bool(_MASK_NAME.search(name))


_Evaluator: TypeAlias = Callable[[Any, Any, Frame], Value]
_EVALUATORS: dict[type, _Evaluator] = {
    ir.Constant: Expressions.eval_constant,
    ir.Name: Expressions.eval_name,
    ir.Attribute: Expressions.eval_attribute,
    ir.Call: Expressions.eval_call,
    ir.Binary: Expressions.eval_binary,
    ir.Unary: Expressions.eval_unary,
    ir.Boolean: Expressions.eval_boolean,
    ir.Compare: Expressions.eval_compare,
    ir.Subscript: Expressions.eval_subscript,
    ir.Slice: Expressions.eval_slice,
    ir.Conditional: Expressions.eval_conditional,
    ir.Display: Expressions.eval_display,
    ir.DictDisplay: Expressions.eval_dict,
    ir.Comprehension: lambda machine, node, frame: machine.eval_comprehension(node, frame),
    ir.Lambda: Expressions.eval_lambda,
    ir.Walrus: Expressions.eval_walrus,
    ir.Formatted: Expressions.eval_formatted,
    ir.Starred: Expressions.eval_starred,
    ir.Await: Expressions.eval_await,
    ir.Yield: Expressions.eval_yield,
    ir.Unread: Expressions.eval_unread,
}
