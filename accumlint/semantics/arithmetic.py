"""What adding, multiplying, dividing and reducing do to numbers, losses and unknowns."""

from __future__ import annotations

import operator as operators
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accumlint.apis.contracts import COUNT_OF
from accumlint.apis.language import Count
from accumlint.reading import ir
from accumlint.semantics.base import Base
from accumlint.semantics.knowledge import STEPS_NAME, is_configured
from accumlint.semantics.numbers import ONE, Num, combine, number
from accumlint.semantics.similarity import SIMILARITY
from accumlint.semantics.values import (
    NO_DATA,
    Canonical,
    Division,
    Fact,
    Form,
    Items,
    Lineage,
    Object,
    Opaque,
    Site,
    SliceValue,
    Value,
    carries_gradient,
    derived,
    facts_of,
    lineage_of,
    path_of,
)

_PLAIN_OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operators.add,
    "-": operators.sub,
    "*": operators.mul,
    "/": operators.truediv,
    "//": operators.floordiv,
    "%": operators.mod,
    "**": operators.pow,
    "&": operators.and_,
    "|": operators.or_,
    "^": operators.xor,
    "<<": operators.lshift,
    ">>": operators.rshift,
}
_LIBRARIES = frozenset({"torch", "numpy", "math", "sys", "os", "time", "random", "builtins"})
LARGEST = 10**18
"""No whole number beyond this is followed: what is that large counts no microbatches and weighs no loss."""
_ROOM = 4096


GRADIENTS = ("gradient", "scaled gradient")
"""Kinds of values: the `.grad` of a parameter, and a copy of it times a number."""


class Arithmetic(Base):
    """Operators on values."""

    def binary(self, operator: str, left: Value, right: Value, node: ir.NodeId) -> Value:
        """`left operator right`."""
        left, right = constant(left), constant(right)
        plain = self._plain(operator, left, right)
        if plain is not NotImplemented:
            return plain  # type: ignore[no-any-return]
        if isinstance(left, Items) and isinstance(right, Items) and operator == "+":
            if len(left.items) + len(right.items) > _ROOM:
                return self.opaque("a long list", left, right, node=node)
            return Items(left.kind, left.items + right.items, left.key or right.key)
        first, second = self.number_for_now(left), self.number_for_now(right)
        if operator in ("*", "/"):
            first, second = self._beside_count(left, first, second), self._beside_count(right, second, first)
        if operator == "%":
            self.confirm_steps(right)  # a counter modulo what is named like a number of steps
        meaningless = operator == "%" and self.is_factor(right)
        shifted = (
            operator in ("+", "-") and isinstance(left, Opaque) and isinstance(right, int) and self.is_factor(left)
        )
        if first is not None and second is not None and not (meaningless or shifted):  # `n - 1`: a test may tell n
            result = combine(operator, first, second)
            if result is not None:
                return result
        if self._is_loss(left) or self._is_loss(right):
            return self._with_loss(operator, left, right, node)
        return self._unknown(operator, left, right, node)

    def _beside_count(self, value: Value, known: Num | None, other: Num | None) -> Num | None:
        """An unknown of the configuration that multiplies or divides a count: a constant, so that the count is kept."""
        if known is not None or other is None or not other.depends_on_counts:
            return known
        if not isinstance(value, Opaque) or value.gradient or value.kind or not is_configured(value):
            return None
        return self.learn_factor(value)

    def _plain(self, operator: str, left: Value, right: Value) -> Any:
        """Python's own arithmetic on literals; floats that meet divisions stay exact as fractions."""
        if not isinstance(left, (bool, int, float, str)) or not isinstance(right, (bool, int, float, str)):
            if isinstance(left, str) and operator == "%":
                return Opaque("string")
            return NotImplemented
        if operator == "/" and not isinstance(left, str) and not isinstance(right, str):
            return NotImplemented
        if operator == "%" and isinstance(right, int) and self.loops and right > 1:
            self.moduli.append(right)
        if operator in ("**", "<<") and not (isinstance(right, (int, float)) and abs(right) < 64):
            return Opaque(f"{left!r} {operator} {right!r}"[:80])
        if isinstance(left, (str, bytes)) and operator == "*":
            return Opaque("string")
        try:
            result = _PLAIN_OPERATORS[operator](left, right)
        except (KeyError, TypeError, ValueError, ArithmeticError):
            return Opaque(f"{left!r} {operator} {right!r}"[:80])
        if isinstance(result, str) and len(result) > _ROOM:
            return Opaque("string")
        if isinstance(result, int) and abs(result) > LARGEST:
            return Opaque("a large number")
        return result if not isinstance(result, complex) else Opaque("complex")

    def _is_loss(self, value: Value) -> bool:
        return isinstance(value, Form) or (isinstance(value, Opaque) and value.gradient)

    def _with_loss(self, operator: str, left: Value, right: Value, node: ir.NodeId) -> Value:
        if operator in ("+", "-"):
            return self._added(operator, left, right, node)
        if operator == "*":
            loss, other = (left, right) if self._is_loss(left) else (right, left)
            return self._multiplied(loss, other, node, divide=False)
        if operator == "/" and self._is_loss(left):
            return self._multiplied(left, right, node, divide=True)
        return self._tangled(operator, left, right, node)

    def _tangled(self, operator: str, left: Value, right: Value, node: ir.NodeId) -> Opaque:
        """An operation that is not linear in the loss: nothing is known of the result but where it came from."""
        result = self.opaque(f"{path_of(left)} {operator} {path_of(right)}", left, right, node=node)
        facts = facts_of(left) | facts_of(right)
        return replace(result, facts=facts)

    def _added(self, operator: str, left: Value, right: Value, node: ir.NodeId) -> Value:
        if not (isinstance(left, Form) or isinstance(right, Form)):
            both = self._is_loss(left) and self._is_loss(right)
            if not both:
                return self._tangled(operator, left, right, node)
        sign = number(-1) if operator == "-" else ONE
        first = self.as_form(left) if self._is_loss(left) else None
        second = self.as_form(right) if self._is_loss(right) else None
        if first is None and second is not None:
            return self._scaled(second, sign)
        if second is None and first is not None:
            return first
        if first is None or second is None:
            return self._tangled(operator, left, right, node)
        if first.detached != second.detached:  # what carries no gradient adds none
            return self._scaled(second, sign) if first.detached else first
        return merge(first, self._scaled(second, sign), operator)

    def _scaled(self, form: Form, by: Num) -> Form:
        if by is ONE:
            return form
        terms = tuple((site, combine("*", coefficient, by) or coefficient) for site, coefficient in form.terms)
        return replace(form, terms=terms)

    def _multiplied(self, loss: Value, other: Value, node: ir.NodeId, *, divide: bool) -> Value:
        word = "/" if divide else "*"
        factor = self._factor(loss, other, divide=divide)
        if factor is None:
            if not carries_gradient(other) and lineage_of(other) and not divide:
                return self._masked(loss, other, node)
            tangled = self._tangled(word, loss, other, node)
            coupled = {Fact("ratio", node)} if self._is_ratio(loss, other) else set()
            return replace(tangled, facts=tangled.facts | coupled)
        form = self.as_form(loss)
        if factor.depends_on_counts and not divide:  # nobody multiplies a sum by its own count
            self.trace.means |= {site.node for site, _ in form.terms if site.reduction == "unknown"}
        terms = tuple((site, combine(word, coefficient, factor) or coefficient) for site, coefficient in form.terms)
        text = f"{form.text} {word} {factor.text}"[:120]
        divisions = form.divisions
        if not factor.depends_on_counts and factor.is_constant:
            effective = factor if divide else combine("/", ONE, factor)
            if effective is not None:
                averages = divide and not effective.unknowns and effective.as_int() == len(form.terms) > 1
                weighs = averages or (not divide and type(other) is float)
                divisions = (*divisions, Division(node, replace(effective, text=factor.text), weighs))
        return replace(form, terms=terms, divisions=divisions, text=text)

    def _is_ratio(self, above: Value, below: Value) -> bool:
        """Whether one sum over the batch is divided by another of the same model's outputs, as in Dice over a batch."""
        if not (isinstance(above, Form) and isinstance(below, Form)) or below.detached:
            return False
        sums = all(site.reduction in ("sum", "mean") for site, _ in (*above.terms, *below.terms))
        models = above.modules & self.called
        return sums and bool(models) and models <= below.modules

    def _factor(self, loss: Value, other: Value, *, divide: bool) -> Num | None:
        """The number that a loss is multiplied or divided by, learned if it is an unknown of the configuration."""
        known = self.number_for_now(other)
        if known is not None:
            if divide:
                self.confirm_steps(other)
            return known
        if isinstance(other, Form) and divide:
            return self._count_of_form(other)
        if isinstance(other, Opaque):
            if not is_configured(other):
                if divide and not other.gradient and other.kind != "mask":
                    return None if self._is_elementwise(loss) else self.count_for(other.lineage, other.path)
                return None
            if other.gradient:
                return None
            named = divide and not self.knowledge.steps_paths and STEPS_NAME.search(other.path)
            if named and not self.learns_here(other, self.spent):
                self.learn_steps(other)
            return self.learn_factor(other)
        return None

    def _is_elementwise(self, loss: Value) -> bool:
        return isinstance(loss, Opaque) or (isinstance(loss, Form) and loss.is_elementwise)

    def _count_of_form(self, form: Form) -> Num | None:
        """`x.sum()` in a denominator, where it was not known that x is a mask: the count of what it summed."""
        if len(form.terms) != 1 or form.terms[0][0].reduction != "sum" or form.terms[0][0].modules:
            return None
        return self.count_for(form.lineage, form.text)

    def _masked(self, loss: Value, other: Value, node: ir.NodeId) -> Value:
        """A loss of one value a target times data: a mask or weights."""
        fact = Fact("mask", node, path_of(other))
        if isinstance(loss, Form) and not loss.is_elementwise:
            return self._tangled("*", loss, other, node)
        if isinstance(loss, Form):
            return self.with_fact(loss, fact)
        result = self._tangled("*", loss, other, node)
        return replace(result, facts=result.facts | {fact})

    def _unknown(self, operator: str, left: Value, right: Value, node: ir.NodeId) -> Value:
        if operator == "%" and isinstance(left, Items):
            return Opaque("string")
        lineage, modules, gradient = derived((left, right))
        wants = tuple(w for v in (left, right) if isinstance(v, Opaque) for w in v.wants)
        counts = self.number_for_now(left) is not None or (isinstance(left, Opaque) and "(" not in left.path)
        if operator == "%" and isinstance(right, Opaque) and is_configured(right) and self.is_open(right) and counts:
            wants = (*wants, (right, "modulo"))
        kind = "mask" if operator in ("&", "|") and lineage else ""
        kinds = [value.kind if isinstance(value, Opaque) else "" for value in (left, right)]
        if (kinds[0] in GRADIENTS and operator in ("*", "/")) or (kinds[1] in GRADIENTS and operator == "*"):
            kind = "" if kinds[0] in GRADIENTS and kinds[1] in GRADIENTS else "scaled gradient"
        gradient = gradient and not self.no_grad and operator not in ("&", "|", "^", "<<", ">>")
        path, facts = f"{path_of(left)} {operator} {path_of(right)}", facts_of(left) | facts_of(right)
        parts = (operator, (left, right))
        return Opaque(path, lineage, gradient, modules, facts, node, parts=parts, wants=wants, kind=kind)

    # ------------------------------------------------------------------------------------------- losses

    def as_form(self, value: Value) -> Form:
        """A value as a loss: an unknown one becomes a site whose reduction is not known."""
        if isinstance(value, Form):
            return value
        if not isinstance(value, Opaque):
            raise TypeError(f"not a loss: {value!r}")
        known = self.sites.get(id(value))
        if known is not None:
            return known[1]
        coupled = any(fact.name == "ratio" for fact in value.facts)
        site = Site(
            value.node,
            "unknown",
            value.lineage,
            value.modules,
            facts=value.facts,
            separable=not coupled,
            text=value.path,
        )
        if value.hidden is not None and value.hidden.may_be_loss:
            contract = value.hidden.contract
            for text in (contract.text, *contract.assumes):
                self.assume(f"declared: {text}")
            count = COUNT_OF[contract.counted]
            site = replace(site, reduction=contract.reduction, count=count, hidden=value.hidden)
        form = Form(((site, ONE),), text=value.path)
        self.sites[id(value)] = (value, form)
        return form

    def with_fact(self, form: Form, fact: Fact) -> Form:
        terms = tuple((replace(site, facts=site.facts | {fact}), coefficient) for site, coefficient in form.terms)
        return replace(form, terms=terms)

    def reduced(self, value: Value, kind: str, node: ir.NodeId, *, partial: bool = False) -> Value:
        """`value.mean()` or `value.sum()` over all elements, or over one dimension (`partial`)."""
        if isinstance(value, (Num, bool, int, float)):
            return value
        if isinstance(value, Form):
            if partial or not (value.is_elementwise or (kind == "mean" and value.is_unknown)):
                return value
            text = f"{value.text}.{kind}()"
            terms = tuple(
                (
                    replace(site, reduction=kind, node=node, text=text, count=site.count or Count.ELEMENTS),
                    coefficient,
                )
                for site, coefficient in value.terms
            )
            return replace(value, terms=terms, text=text)
        if not isinstance(value, Opaque):
            return self.opaque(f"{path_of(value)}.{kind}()", value, node=node)
        path = f"{value.path}.{kind}()"
        if partial:
            return replace(value, path=path, node=node, kind=value.kind)
        if value.gradient:
            separable = all(fact.name != SIMILARITY for fact in value.facts)
            site = Site(node, kind, value.lineage, value.modules, Count.ELEMENTS, "", value.facts, separable, text=path)
            return Form(((site, ONE),), text=path)
        if kind == "sum" and value.lineage:
            return self.count_for(value.lineage, path)
        return Opaque(path, value.lineage, False, value.modules, value.facts, node)

    # --------------------------------------------------------------------------------------- data parts

    def size_of(self, value: Value, path: str) -> Value:
        """A size of a tensor: an unknown count where it holds data, else a number of the configuration."""
        lineage = lineage_of(value)
        return self.count_for(lineage, path) if lineage else Opaque(path)

    def slice_lineage(self, value: Value, index: Value, node: ir.Subscript) -> Lineage:
        """The arrival that taking a moving part of data is: `x[start : start + size]`, `batches[i]`."""
        if isinstance(index, (str, type(None))) or not isinstance(value, (Opaque, Object)) or lineage_of(index):
            return NO_DATA
        if isinstance(index, bool) or not self.loops:
            return NO_DATA
        written = node.index
        if isinstance(written, ir.Display) and written.elements:
            written = written.elements[0]
        if _is_fixed(written):
            return NO_DATA
        if isinstance(index, SliceValue) and index.lower is None:
            length = self.as_number(index.upper)
            if index.upper is None or (length is not None and length.depends_on_counts):
                return NO_DATA  # all of it, or as much of something as a batch is long
        base = max(lineage_of(value)) if lineage_of(value) else None
        moving = self._printed(index)
        key = ("slice", base, moving, tuple((loop.node, loop.iteration) for loop in self.loops if loop.is_data))
        if key not in self.slices:
            self.slices[key] = self.new_atom("slice", 1)
        return frozenset({self.slices[key]})

    def _printed(self, index: Value) -> str:
        known = self.as_number(index)
        if known is not None:
            return str(known.at)
        if isinstance(index, SliceValue):
            return f"{self._printed(index.lower)}:"
        return path_of(index)


def constant(value: Value) -> Value:
    """A name that is imported and reckoned with is a number of another module's configuration."""
    if not isinstance(value, Canonical) or value.name.partition(".")[0] in _LIBRARIES:
        return value
    return Opaque(value.name)


def _is_fixed(index: ir.Expression) -> bool:
    """Whether an index is written without a name: the same part each time."""
    if isinstance(index, ir.Slice):
        return all(part is None or _is_fixed(part) for part in (index.lower, index.upper))
    if isinstance(index, ir.Unary):
        return _is_fixed(index.operand)
    return isinstance(index, ir.Constant)


def merge(first: Form, second: Form, operator: str = "+") -> Form:
    """The sum of two losses."""
    terms = dict(first.terms)
    for site, coefficient in second.terms:
        present = terms.get(site)
        terms[site] = coefficient if present is None else (combine("+", present, coefficient) or coefficient)
    common = tuple(division for division in first.divisions if division in second.divisions)
    return Form(
        tuple(terms.items()),
        common,
        first.scaler or second.scaler,
        first.detached and second.detached,
        f"{first.text} {operator} {second.text}"[:120],
    )


__all__ = ["Arithmetic", "constant", "merge"]
