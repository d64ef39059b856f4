"""Does a function compute a mean loss from its labels, and does the count of the window reach that loss?

Read off the syntax, statement by statement, for model heads: no path is run. A value is a loss only where a loss of the
tables made it, a helper of the file, or the head's own `self.loss_function`; whatever else there is stays unknown, and
an unknown loss is evidence of nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import get_args

from accumlint.apis.language import Arg, Attr, Const, Loss
from accumlint.apis.registry import Registry
from accumlint.apis.signature import Default, parse_signature
from accumlint.contract.classes import ClassView, FileNames
from accumlint.reading import ir
from accumlint.reading.walk import children, dotted, walk

COUNT = "num_items_in_batch"
DEPTH = 3
_NO_LABELS = re.compile(r"input|output|hidden|embed|logits|cache|states|features|scores")
"""Names of what a model computes: they derive from labels where those are shifted into a decoder, but hold none."""
_MEANS = frozenset({"mean", "nanmean"})


class Kind(Enum):
    """What a value is made of, weakest first; a sum of two has the stronger kind."""

    NOTHING = 0
    UNKNOWN = 1  # a loss whose reduction is not written down
    ELEMENTS = 2  # one value a target
    SUM = 3
    MEAN = 4


@dataclass(slots=True)
class Reading:
    """What was found: where means were made of labels, and whether the count or the kwargs reached any loss."""

    means: list[ir.NodeId] = field(default_factory=list)
    counted: bool = False


@dataclass(frozen=True, slots=True)
class Context:
    """What a reading looks names up in."""

    names: FileNames
    view: ClassView | None
    registry: Registry
    own_loss_is_mean: bool = True  # whether `self.loss_function` is one of transformers' means


def read_losses(function: ir.Function, labels: Iterable[str], kwargs: str | None, context: Context) -> Reading:
    """Read a function whose parameters `labels` hold targets and whose `**kwargs` (their name) may hold the count."""
    reading = Reading()
    _Reader(context, reading, set(labels), {kwargs} if kwargs else set(), DEPTH).run(function.body)
    return reading


class _Reader:
    """One function. `targets` are names derived from labels, `extras` those that hold the kwargs."""

    def __init__(self, context: Context, reading: Reading, targets: set[str], extras: set[str], depth: int) -> None:
        self.context = context
        self.reading = reading
        self.targets = targets
        self.extras = extras
        self.depth = depth
        self.makers: dict[str, ir.Call] = {}
        self.trusted: set[str] = set()  # results of calls that were given labels and the kwargs: one may hold a loss
        self.kinds: dict[str, Kind] = {}
        self.returned = Kind.NOTHING
        self.bound: ir.Call | None = None

    # -------------------------------------------------------------------------------------------- statements

    def run(self, body: Iterable[ir.Statement]) -> None:
        for statement in body:
            self._statement(statement)

    def _statement(self, statement: ir.Statement) -> None:
        match statement:
            case ir.Function() | ir.Class():
                return
            case ir.Assign(targets=targets, value=value):
                named = all(isinstance(target, ir.Name) for target in targets)
                self.bound = value if named and isinstance(value, ir.Call) else None
                kind = self.kind(value)
                self.bound = None
                for target in targets:
                    self._bind(target, value, kind)
            case ir.Augment(target=target, operator=operator, value=value):
                kind = _combined(operator, self.kind(target), self.kind(value), divisor=value)
                self._note(kind, self.kind(target), statement.node)
                if isinstance(target, ir.Name):
                    self.kinds[target.id] = kind
            case ir.Return(value=value):
                if value is not None:
                    self.returned = _stronger(self.returned, self.kind(value))
            case _:
                for child in children(statement):
                    if isinstance(child, _STATEMENTS):
                        self._statement(child)
                    else:
                        self.kind(child)  # type: ignore[arg-type]

    def _bind(self, target: ir.Expression, value: ir.Expression, kind: Kind) -> None:
        if isinstance(target, ir.Display):
            values = value.elements if isinstance(value, ir.Display) else ()
            for place, each in enumerate(target.elements):
                self._bind(each, values[place] if len(values) == len(target.elements) else value, kind)
            return
        if isinstance(target, ir.Starred):
            target = target.value
        if isinstance(target, ir.Subscript) and isinstance(target.index, ir.Constant) and target.index.value == COUNT:
            self.extras.add(dotted(target.value) or "")
        name = dotted(target)
        if name is None:
            return
        if isinstance(value, ir.Call) and self._is_maker(value):
            self.makers[name] = value
            self.kinds.pop(name, None)
            return
        self.kinds[name] = kind
        self.trusted.discard(name)
        if isinstance(target, ir.Name) and self._hands_on(value):
            self.trusted.add(name)
        if self._holds_labels(value) and not _NO_LABELS.search(name):
            self.targets.add(name)
        if self._holds_extras(value):
            self.extras.add(name)

    # ------------------------------------------------------------------------------------------- expressions

    def kind(self, expression: ir.Expression) -> Kind:
        """What an expression is; means that it makes of labels are noted."""
        match expression:
            case ir.Name(id=name):
                return self.kinds.get(name, Kind.NOTHING)
            case ir.Attribute(value=value):
                if expression.name == "loss":
                    self._takes_loss(value)
                path = dotted(expression)
                return self.kinds.get(path, Kind.NOTHING) if path else self.kind(value)
            case ir.Call():
                return self._call(expression)
            case ir.Binary(operator="**", left=left) if self._is_error(left):
                return Kind.ELEMENTS
            case ir.Binary(operator=operator, left=left, right=right):
                before = self.kind(left)
                kind = _combined(operator, before, self.kind(right), divisor=right)
                self._note(kind, before if operator == "/" else kind, expression.node)
                return kind
            case ir.Unary(operand=operand):
                return self.kind(operand)
            case ir.Subscript(value=value):
                if isinstance(expression.index, ir.Constant) and expression.index.value in (0, "loss"):
                    self._takes_loss(value)
                return self.kind(value)
            case ir.Walrus(target=target, value=value):
                kind = self.kind(value)
                self._bind(target, value, kind)
                return kind
            case ir.Compare() | ir.Constant() | ir.Lambda() | ir.Comprehension():
                return Kind.NOTHING
            case _:
                found = Kind.NOTHING
                for child in children(expression):
                    found = _stronger(found, self.kind(child))  # type: ignore[arg-type]
                return found

    def _is_error(self, value: ir.Expression) -> bool:
        """`values - labels`: raised to a power, it is the error of each target."""
        sides = (value.left, value.right) if isinstance(value, ir.Binary) and value.operator == "-" else ()
        return sum(map(self._holds_labels, sides)) == 1

    def _note(self, kind: Kind, before: Kind, node: ir.NodeId) -> None:
        """A division has just made a mean of a sum."""
        if kind is Kind.MEAN and before is Kind.SUM:
            self.reading.means.append(node)

    def _call(self, call: ir.Call) -> Kind:
        operands = [self.kind(argument.value) for argument in call.arguments]
        operand = max(operands, key=lambda each: each.value, default=Kind.NOTHING)
        function = call.function
        name = function.name if isinstance(function, ir.Attribute) else ""
        if isinstance(function, ir.Attribute):
            receiver = self.kind(function.value)
            if receiver is not Kind.NOTHING:
                return self._reduce(name, receiver, call.node)
        if dotted(function) == "dict" or not any(self._holds_labels(argument.value) for argument in call.arguments):
            return self._reduce(name, operand, call.node)
        kind = self._loss_call(call)
        self.reading.counted |= self._passes_count(call) and (kind is not None or not self._is_bound(call))
        return self._reduce(name, operand, call.node) if kind is None else kind

    def _hands_on(self, value: ir.Expression) -> bool:
        """Whether a value is what a call returns that is given labels and the kwargs, and makes no loss by its name."""
        return (
            isinstance(value, ir.Call)
            and self._passes_count(value)
            and any(self._holds_labels(argument.value) for argument in value.arguments)
        )

    def _is_bound(self, call: ir.Call) -> bool:
        """Whether the statement that is read gives the call's result a name: what becomes of it can be seen."""
        return call is self.bound

    def _takes_loss(self, value: ir.Expression) -> None:
        """`outputs.loss` of a call that was given labels and the kwargs: it counts."""
        if isinstance(value, ir.Name) and value.id in self.trusted:
            self.reading.counted = True

    def _reduce(self, name: str, kind: Kind, node: ir.NodeId) -> Kind:
        """A method or function of the tensor library on a loss: means and sums reduce, all others keep it."""
        if kind is not Kind.ELEMENTS:
            return kind
        if name in _MEANS:
            self.reading.means.append(node)
            return Kind.MEAN
        return Kind.SUM if name in ("sum", "nansum") else kind

    def _loss_call(self, call: ir.Call) -> Kind | None:
        """The kind of the loss that a call makes of labels; None if it makes none that is known."""
        function = call.function
        name = dotted(function)
        if name in ("self.loss_function", "self._loss_function"):
            return self._mean(call.node) if self.context.own_loss_is_mean else Kind.UNKNOWN
        maker = function if isinstance(function, ir.Call) else self._maker(name) if name else None
        if maker is not None:
            own = self.context.names.classes.get(dotted(maker.function) or "")
            if own is not None:
                view = self.context.names.view(own)
                return self._helper(view.method("forward"), call, skip=1, view=view)
            return self._library(f"{self._canonical(maker.function)}.__call__", call, maker)
        if name is not None and name.startswith("self.") and name.count(".") == 1 and self.context.view is not None:
            method = self.context.view.method(name[5:])
            static = method is not None and any(dotted(each) == "staticmethod" for each in method.decorators)
            return self._helper(method, call, skip=0 if static else 1)
        if name is not None and name in self.context.names.functions:
            return self._helper(self.context.names.functions[name], call, skip=0)
        return self._library(self._canonical(function), call, None)

    def _library(self, canonical: str, call: ir.Call, maker: ir.Call | None) -> Kind | None:
        row = self.context.registry.find(canonical)
        effect = next((each for each in row.does if isinstance(each, Loss)), None) if row is not None else None
        if row is None or effect is None:
            return None
        made = self.context.registry.find(self._canonical(maker.function)) if maker is not None else None
        match effect.reduction:
            case Const(value=value):
                reduction: object = value
            case Arg(name=name):
                reduction = self._argument(row.parameters, call, name)
            case Attr(name=name) if maker is not None and made is not None:
                reduction = self._argument(made.parameters, maker, name)
            case _:
                reduction = None
        if reduction in ("mean", "batchmean"):
            return self._mean(call.node)
        return {"none": Kind.ELEMENTS, "sum": Kind.SUM}.get(str(reduction), Kind.UNKNOWN)

    def _argument(self, parameters: str, call: ir.Call, name: str) -> object:
        """The literal that a call gives to a parameter, its default, or None where it is not written down."""
        if any(argument.star for argument in call.arguments):
            return None
        positional: list[ir.Expression] = [argument.value for argument in call.arguments if argument.keyword is None]
        keywords = {argument.keyword: argument.value for argument in call.arguments if argument.keyword}
        if keywords.keys() & {"reduce", "size_average"}:
            return None
        given = parse_signature(parameters).bind(positional, keywords).get(name)
        if isinstance(given, Default):
            return given.value
        return given.value if isinstance(given, ir.Constant) else None

    def _helper(
        self, function: ir.Function | None, call: ir.Call, skip: int, view: ClassView | None = None
    ) -> Kind | None:
        """A function of the file that is given labels is read in its place; `view` is the class it is a method of."""
        if function is None or self.depth == 0 or self._passes_count(call):
            return None
        parameters = [each for each in function.parameters if each.kind == "positional"][skip:]
        targets: set[str] = set()
        place = 0
        for argument in call.arguments:
            if argument.star:
                return None
            name = argument.keyword
            if name is None:
                name = parameters[place].name if place < len(parameters) else None
                place += 1
            if name is not None and self._holds_labels(argument.value):
                targets.add(name)
        context = self.context if view is None else replace(self.context, view=view)
        inner = _Reader(context, self.reading, targets, set(), self.depth - 1)
        inner.run(function.body)
        return inner.returned

    def _mean(self, node: ir.NodeId) -> Kind:
        self.reading.means.append(node)
        return Kind.MEAN

    # -------------------------------------------------------------------------------------------------- names

    def _canonical(self, expression: ir.Expression) -> str:
        return self.context.names.canonical(expression) or ""

    def _is_maker(self, call: ir.Call) -> bool:
        own = self.context.names.classes.get(dotted(call.function) or "")
        if own is not None:
            return any(isinstance(each, ir.Function) and each.name == "forward" for each in own.body)
        canonical = self._canonical(call.function)
        return bool(canonical) and self.context.registry.find(f"{canonical}.__call__") is not None

    def _maker(self, name: str) -> ir.Call | None:
        """The constructor call behind a local name or behind `self.name`."""
        if name in self.makers:
            return self.makers[name]
        if not name.startswith("self.") or self.context.view is None:
            return None
        made = self.context.view.sets(name[5:])
        if len(made) == 1 and isinstance(made[0], ir.Call) and self._is_maker(made[0]):
            return made[0]
        return None

    def _holds_labels(self, expression: ir.Expression) -> bool:
        return any(isinstance(node, ir.Name) and node.id in self.targets for node in walk(expression))

    def _holds_extras(self, expression: ir.Expression) -> bool:
        """Whether an expression is made of the kwargs themselves, not of what a call did with them."""
        match expression:
            case ir.Name(id=name):
                return name in self.extras
            case ir.Call(function=function, arguments=arguments):
                if isinstance(function, ir.Attribute) and self._holds_extras(function.value):
                    return not (arguments and isinstance(arguments[0].value, ir.Constant))
                plain = [each.value for each in arguments if each.star != "**" or dotted(function) == "dict"]
                return any(self._holds_extras(value) for value in plain)
            case ir.Attribute() | ir.Lambda():
                return False
            case _:
                return any(self._holds_extras(child) for child in children(expression))  # type: ignore[arg-type]

    def _passes_count(self, call: ir.Call) -> bool:
        """Whether a call is given the kwargs, or the count by its name."""
        return any(argument.keyword == COUNT or self._holds_extras(argument.value) for argument in call.arguments)


def _stronger(left: Kind, right: Kind) -> Kind:
    return left if left.value >= right.value else right


def _combined(operator: str, left: Kind, right: Kind, *, divisor: ir.Expression) -> Kind:
    if operator == "/":
        if left is Kind.SUM and not isinstance(divisor, ir.Constant):
            return Kind.MEAN
        return left
    return _stronger(left, right)


_STATEMENTS = get_args(ir.Statement)
