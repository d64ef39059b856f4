"""What the expressions of a loss helper are made of, up to their shape, in the names of its parameters.

`(targets.reshape(-1) != ignore_index).sum()` and `(targets != ignore_index).sum()` count the same. Which count a loss
divides by is only a candidate here: the leaf check runs the helper itself and decides.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field

from accumlint.repair.functions import Called
from accumlint.repair.scope import Scope

SHAPING = frozenset(
    {"view", "reshape", "flatten", "contiguous", "squeeze", "unsqueeze", "transpose", "permute", "long", "to", "cuda",
     "cpu", "detach", "type", "int", "float", "bool", "type_as", "ravel", "clone", "double", "t", "movedim", "swapaxes"}
)  # fmt: skip
CUTTING = frozenset({"split", "chunk", "unbind"})
JOINING = frozenset({"torch.cat", "torch.stack", "torch.concat"})
GUARDS = frozenset({"clamp", "clamp_min", "maximum", "clip"})
DEEPEST = 30
SMALLEST_COUNT = 1e-3  # what is added to a divisor below this only keeps it from being zero


@dataclass(slots=True)
class Reader:
    """Reads the expressions of one helper."""

    called: Called
    scope: Scope
    passed: dict[str, ast.expr] = field(default_factory=dict)
    _busy: set[str] = field(default_factory=set)

    @classmethod
    def of(cls, called: Called, passed: dict[str, ast.expr]) -> Reader:
        return cls(called, Scope.at(called.tree, called.function.lineno), passed)

    def read(self, node: ast.expr, depth: int = 0) -> ast.expr | None:
        """The expression without what only changes its shape or type, or None."""
        if depth > DEEPEST:
            return None
        if isinstance(node, ast.Constant):
            return node
        if isinstance(node, ast.Name):
            return self._name(node.id, depth + 1)
        if isinstance(node, ast.UnaryOp):
            operand = self.read(node.operand, depth + 1)
            return None if operand is None else ast.UnaryOp(node.op, operand)
        if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr, ast.Mult)):
            left, right = self.read(node.left, depth + 1), self.read(node.right, depth + 1)
            return None if left is None or right is None else ast.BinOp(left, node.op, right)
        if isinstance(node, ast.Compare) and len(node.ops) == 1:
            left, right = self.read(node.left, depth + 1), self.read(node.comparators[0], depth + 1)
            return None if left is None or right is None else ast.Compare(left, node.ops, [right])
        if isinstance(node, ast.Subscript) and _is_cut(node.slice):
            value = self.read(node.value, depth + 1)
            return None if value is None else ast.Subscript(value, node.slice, ast.Load())
        if isinstance(node, (ast.List, ast.Tuple)):
            return self._one([self.read(each, depth + 1) for each in node.elts])
        if isinstance(node, (ast.ListComp, ast.GeneratorExp)):
            return self.read(node.elt, depth + 1)
        return self._call(node, depth + 1) if isinstance(node, ast.Call) else None

    def _call(self, node: ast.Call, depth: int) -> ast.expr | None:
        if self.scope.canonical(node.func) in JOINING and node.args:
            return self.read(node.args[0], depth)
        if not isinstance(node.func, ast.Attribute):
            return None
        if node.func.attr in SHAPING | CUTTING:
            return self.read(node.func.value, depth)
        if node.func.attr == "sum" and not node.args and not node.keywords:
            value = self.read(node.func.value, depth)
            return None if value is None else ast.Call(ast.Attribute(value, "sum", ast.Load()), [], [])
        return None

    def _name(self, name: str, depth: int) -> ast.expr | None:
        """A local name whose values are the same up to their shape is that; a parameter is itself."""
        if name in self._busy:
            return ast.Name(name, ast.Load())
        self._busy.add(name)
        try:
            values = list(self._values(name, depth))
        finally:
            self._busy.discard(name)
        own = ast.Name(name, ast.Load())
        if name in self.passed or name in self.called.defaults:
            constant = self.called.defaults.get(name) if name not in self.passed else self.passed[name]
            values.append(constant if isinstance(constant, (ast.Constant, ast.UnaryOp)) else own)
        others = [each for each in values if each is None or ast.dump(each) != ast.dump(own)]
        return self._one(others or [own])

    def _one(self, values: list[ast.expr | None]) -> ast.expr | None:
        texts = {None if each is None else ast.dump(each) for each in values}
        return values[0] if len(texts) == 1 else None

    def _values(self, name: str, depth: int) -> Iterator[ast.expr | None]:
        for node in ast.walk(self.called.function):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    yield from self._given(target, node.value, name, depth)
            elif isinstance(node, ast.AnnAssign) and node.value is not None:
                yield from self._given(node.target, node.value, name, depth)
            elif isinstance(node, (ast.AugAssign, ast.NamedExpr)) and _binds(node.target, name):
                yield None
            elif isinstance(node, (ast.For, ast.comprehension)):
                yield from self._element(node.target, node.iter, name, depth)

    def _given(self, target: ast.expr, value: ast.expr, name: str, depth: int) -> Iterator[ast.expr | None]:
        if isinstance(target, ast.Name):
            if target.id == name:
                yield self.read(value, depth)
        elif _binds(target, name):
            if not isinstance(target, ast.Tuple) or not isinstance(value, ast.Tuple):
                yield None
                return
            for each, given in itertools.zip_longest(target.elts, value.elts, fillvalue=ast.Name("", ast.Load())):
                yield from self._given(each, given, name, depth)

    def _element(self, target: ast.expr, over: ast.expr, name: str, depth: int) -> Iterator[ast.expr | None]:
        """What a name of a loop is a part of: the element that stands at its place in `zip`, `enumerate` or a list."""
        if not _binds(target, name):
            return
        if isinstance(target, ast.Name):
            yield self.read(over, depth)
            return
        called = over.func.id if isinstance(over, ast.Call) and isinstance(over.func, ast.Name) else ""
        if not isinstance(target, ast.Tuple) or not isinstance(over, ast.Call) or called not in ("zip", "enumerate"):
            yield None
            return
        sources = over.args if called == "zip" else [ast.Constant(None), *over.args[:1]]
        for each, source in zip(target.elts, sources, strict=False):
            yield from self._element(each, source, name, depth)


def _is_cut(index: ast.expr) -> bool:
    """`[..., 1:]`: slices with bounds that are numbers, and no place of its own."""
    parts = index.elts if isinstance(index, ast.Tuple) else [index]
    bounds = [
        bound for part in parts if isinstance(part, ast.Slice) for bound in (part.lower, part.upper, part.step)
        if bound is not None
    ]  # fmt: skip
    plain = all(isinstance(p, ast.Slice) or (isinstance(p, ast.Constant) and p.value is Ellipsis) for p in parts)
    return plain and all(isinstance(n, (ast.Constant, ast.UnaryOp, ast.USub)) for b in bounds for n in ast.walk(b))


def _binds(target: ast.expr, name: str) -> bool:
    return any(isinstance(node, ast.Name) and node.id == name for node in ast.walk(target))


def is_rank(node: ast.AST) -> bool:
    """`x.dim()`, `x.ndim`, `len(x.shape)`: the usual shapes have all of them."""
    if isinstance(node, ast.Attribute):
        return node.attr == "ndim"
    if not isinstance(node, ast.Call):
        return False
    shape = node.args[0] if isinstance(node.func, ast.Name) and node.func.id == "len" and node.args else None
    return (isinstance(shape, ast.Attribute) and shape.attr == "shape") or (
        isinstance(node.func, ast.Attribute) and node.func.attr == "dim"
    )


def sources_of(function: ast.FunctionDef, name: str) -> list[ast.expr]:
    """What a local name is given; the names of a loop are given what stands at their place of a `zip`."""
    found: list[ast.expr] = []
    for node in ast.walk(function):
        if isinstance(node, (ast.For, ast.comprehension)) and _binds(node.target, name):
            found += _places(node.target, node.iter, name)
        elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            found += [node.value] if any(_binds(target, name) for target in targets) else []
    return found


def _places(target: ast.expr, over: ast.expr, name: str) -> list[ast.expr]:
    zipped = isinstance(over, ast.Call) and isinstance(over.func, ast.Name) and over.func.id == "zip"
    if zipped and isinstance(over, ast.Call) and isinstance(target, ast.Tuple):
        return [source for part, source in zip(target.elts, over.args, strict=False) if _binds(part, name)]
    return [over]


def unguarded(node: ast.expr, scope: Scope) -> tuple[ast.expr, bool]:
    """A divisor without what keeps it from being zero, and whether there was anything: `n` of `n.clamp(min=1)`."""
    if isinstance(node, ast.Call):
        canonical = scope.canonical(node.func)
        if canonical.startswith("torch.") and canonical.removeprefix("torch.") in GUARDS and node.args:
            return node.args[0], True
        if isinstance(node.func, ast.Name) and node.func.id == "max" and len(node.args) == 2:
            number = [each for each in node.args if isinstance(each, ast.Constant)]
            rest = [each for each in node.args if not isinstance(each, ast.Constant)]
            return (rest[0], True) if len(number) == len(rest) == 1 else (node, False)
        if isinstance(node.func, ast.Attribute) and not canonical and node.func.attr in GUARDS:
            return node.func.value, True
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) and isinstance(node.right, ast.Constant):
        value = node.right.value
        if isinstance(value, float) and 0 < value < SMALLEST_COUNT:
            return node.left, True
    return node, False


__all__ = ["Reader", "is_rank", "sources_of", "unguarded"]
