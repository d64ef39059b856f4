"""Comparisons and truth: what is decided, what stays open, and which unknown would decide it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from accumlint.reading import ir
from accumlint.semantics.arithmetic import Arithmetic, constant
from accumlint.semantics.machine import is_configured
from accumlint.semantics.numbers import Num, compare, negate, number, pointwise
from accumlint.semantics.values import (
    Canonical,
    ClassValue,
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
    lineage_of,
    path_of,
)

_ORDERINGS: dict[str, Callable[[Any, Any], bool]] = {
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_PLAIN = (bool, int, float, str, bytes, type(None))
_NOT_NONE = (Num, Form, Object, Items, Mapping, FunctionValue, ClassValue, Canonical, Stream, RangeValue, SliceValue)


def _usual(points: tuple[bool | None, ...]) -> bool:
    """What a comparison gives for most samples of the counts: an index that equals one of them is an accident."""
    known = [point for point in points if point is not None]
    return 2 * sum(known) >= len(known)


class Comparisons(Arithmetic):
    """Comparing values, and their truth."""

    def compared(
        self, word: str, left: Value, right: Value, node: ir.NodeId, literal: tuple[bool, bool] = (False, False)
    ) -> Value:
        """One comparison: a bool where it is decided. `literal` says which sides are written as constants."""
        if word not in _ORDERINGS:
            if word in ("is", "is not"):
                return self._identical(left, right, node, negated=word == "is not")
            return self._contained(left, right, node, negated=word == "not in")
        left, right = constant(left), constant(right)
        if isinstance(left, _PLAIN) and isinstance(right, _PLAIN):
            if self.loops and word in ("==", ">=", "<") and type(right) is int and right > 1:
                self.moduli.append(right)
            try:
                return bool(_ORDERINGS[word](left, right))
            except TypeError:
                return Opaque(f"{left!r} {word} {right!r}", node=node)
        first, second = self.as_number(left), self.as_number(right)
        meaningless = self.is_factor(left) or self.is_factor(right)
        if first is not None and second is not None and not meaningless:
            answer = compare(word, first, second)
            if answer.answer is not None:
                if answer.basis.name == "SAMPLED":
                    self.assume(f"{first.text} {word} {second.text} is {answer.answer}")
                return answer.answer
            return replace(
                self._open_comparison(word, left, right, node, literal), points=pointwise(word, first, second)
            )
        if word in ("==", "!=") and left is right and isinstance(left, (Object, FunctionValue)):
            return word == "=="
        return self._open_comparison(word, left, right, node, literal)

    def _open_comparison(
        self, word: str, left: Value, right: Value, node: ir.NodeId, literal: tuple[bool, bool]
    ) -> Opaque:
        lineage = lineage_of(left) | lineage_of(right)
        wants: list[tuple[Opaque, str]] = []
        for value, other, written in ((left, right, literal[1]), (right, left, literal[0])):
            if isinstance(value, Opaque):
                wants += value.wants
                counter = self.as_number(other)
                if written or counter is None or not is_configured(value) or value.wants:
                    continue
                if self.is_open(value) and self.is_counter(other, counter):
                    wants.append((value, "counter"))
        facts = frozenset[Fact]()
        if word in ("==", "!=") and lineage:
            facts = frozenset({Fact("comparison", node, f"{path_of(left)} {word} {path_of(right)}")})
        kind = "mask" if lineage else "condition"
        text = f"{path_of(left)} {word} {path_of(right)}"
        return Opaque(text, lineage, False, frozenset(), facts, node, ("compare", (left, right)), tuple(wants), kind)

    def is_counter(self, value: Value, known: Num) -> bool:
        """Whether a number can be one that counts microbatches: a whole number that the code itself computed."""
        whole = known.as_int()
        return whole is not None and whole >= 0 and not (isinstance(value, Opaque) and not value.parts)

    def _identical(self, left: Value, right: Value, node: ir.NodeId, *, negated: bool) -> Value:
        if right is None or left is None:
            other = left if right is None else right
            if other is None:
                return not negated
            if isinstance(other, (*_NOT_NONE, bool, int, float, str)):
                return negated
            if isinstance(other, Opaque):
                if other.lineage and other.kind != "optional":
                    return negated
                if other.kind in ("parameter", "gradient", "parameters"):
                    return negated
                text = f"{other.path} is None"
                inner = Opaque(text, node=node)
                if not negated:
                    return inner
                return Opaque(f"not {text}", node=node, parts=("not", (inner,)))
        if isinstance(left, bool) and isinstance(right, bool):
            return (left is right) != negated
        if left is right and not isinstance(left, Opaque):
            return not negated
        return Opaque(f"{path_of(left)} is {'not ' if negated else ''}{path_of(right)}", node=node)

    def _contained(self, left: Value, right: Value, node: ir.NodeId, *, negated: bool) -> Value:
        if isinstance(right, Mapping) and isinstance(left, _PLAIN):
            if left in right.items:
                return not negated
            if right.rest is None:
                return negated
        if isinstance(right, Items) and isinstance(left, _PLAIN) and all(isinstance(i, _PLAIN) for i in right.items):
            return (left in right.items) != negated
        if isinstance(right, str) and isinstance(left, str):
            return (left in right) != negated
        lineage = lineage_of(left) | lineage_of(right)
        text = f"{path_of(left)} in {path_of(right)}"
        inner = Opaque(text, lineage, node=node)
        return Opaque(f"not {text}", lineage, node=node, parts=("not", (inner,))) if negated else inner

    def negated(self, value: Value, node: ir.NodeId) -> Value:
        if isinstance(value, (bool, int, float)):
            return -value
        if isinstance(value, Num):
            return negate(value)
        if isinstance(value, (Form, Opaque)):
            if isinstance(value, Opaque) and not value.gradient:
                known = self.as_number(value)
                if known is not None:
                    return negate(known)
                return self.opaque(f"-{value.path}", value, node=node)
            return self.binary("*", value, number(-1), node)
        return self.opaque(f"-{path_of(value)}", value, node=node)

    def truth(self, value: Value) -> bool | None:
        """Python's truth of a value, or None where it is not known."""
        if isinstance(value, _PLAIN):
            return bool(value)
        if isinstance(value, Num):
            return compare("!=", value, number(0)).answer
        if isinstance(value, Items):
            return bool(value.items)
        if isinstance(value, Mapping):
            return True if value.items else (None if value.rest is not None else False)
        if isinstance(value, Opaque):
            if value.kind == "last":
                return self.is_last_iteration()
            if value.points is not None and value.points[0] == _usual(value.points):
                self.assume(f"{value.path} is {value.points[0]}: a window has valid targets")
                return value.points[0]
            known = None if self.is_factor(value) else self.as_number(value)
            return None if known is None else compare("!=", known, number(0)).answer
        if isinstance(value, Form):
            return None
        return True

    def is_last_iteration(self) -> bool | None:
        """Whether the microbatch loop is in its last iteration: what an unknown test beside a boundary asks."""
        for loop in self.enclosing():
            if loop.is_data:
                return loop.is_last
        return None
