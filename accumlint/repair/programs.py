"""A loss helper as a program of its own, for the leaf check: its statements, in which only known operations are called.

Branches and loops stay as they are, so that torch takes the ways that the script takes. What reads or changes anything
outside of the helper (an attribute of `self`, a global that is no number, a place of a list, an operation in place) is
refused with its reason: nothing of the script is run that is not on the list of known operations.
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field

from accumlint.repair.functions import Called, find_called
from accumlint.repair.modulo_shape import CUTTING, Reader, is_rank, sources_of
from accumlint.repair.replay import (
    BUILTINS,
    DROPPED,
    DTYPES,
    FUNCTIONAL,
    FUNCTIONS,
    LARGEST_EPS,
    LOSSES,
    METHODS,
    LossCall,
    UnmodelledError,
)
from accumlint.repair.scope import Scope

POSITIONS = ("input", "target", "weight")
LOOPED = frozenset({"zip", "enumerate", "range", "isinstance", "list", "tuple", "bool"})
TYPES = frozenset({"list", "tuple", "torch.Tensor", "torch.is_tensor"})
JOINED = frozenset({"torch.chunk", "torch.split", "torch.is_tensor", "torch.concat"})
UNITS = frozenset({"device", "requires_grad"})
NO_GRAD = "torch.no_grad"
PRECISION = frozenset({"torch.autocast", "torch.amp.autocast", "torch.cuda.amp.autocast"})
PARTIAL = frozenset({"sum", "mean", "logsumexp", "amax", "amin"})
SMALLEST_CUT, LARGEST_CUT = 8, 1024
"""Whole numbers of a helper between these may cut its data into pieces: some of the drawn data are longer."""
DEEPEST = 3
WAY = "program_way"
WAYS = f"""\
program_ways = set()
def {WAY}(name, answer):
    program_ways.add(f"{{name}} {{bool(answer)}}")
    return bool(answer)
"""
NOTHING = 1e-30


@dataclass(slots=True)
class Program:
    """The text of a helper under a name of its own, and what is known of its parameters."""

    name: str
    text: str
    calls: list[LossCall] = field(default_factory=list)  # the losses in it; roots are its parameters
    numbers: set[int] = field(default_factory=set)
    ways: set[str] = field(default_factory=set)  # outcomes of its tests that drawn data have to bring about
    tests: int = 0
    lists: set[str] = field(default_factory=set)  # parameters that may be lists of tensors
    small: float = 0.0  # what is added to a divisor and was left out
    partial: bool = False  # something is reduced over some of its dimensions


def read_program(called: Called, passed: dict[str, ast.expr], name: str, depth: int = 0) -> Program:
    """The program of a helper that is called with `passed`; raises UnmodelledError for whatever is not known."""
    program = Program(name, "")
    function = copy.deepcopy(called.function)
    reader = Reader.of(called, passed)
    body = _Writer(called, reader, program, depth).block(function.body)
    parameters = [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    shown = []
    for parameter in parameters:
        default = called.defaults.get(parameter)
        if default is not None and parameter not in passed and not _is_literal(default):
            raise UnmodelledError(f"the default of `{parameter}` in `{called.function.name}` is not replayed")
        literal = default is not None and _is_literal(default)
        used = passed.get(parameter, default)
        if isinstance(used, ast.Constant) and type(used.value) is int and "index" not in parameter:
            program.numbers.add(used.value)
        shown.append(f"{parameter}={ast.unparse(default)}" if literal and default is not None else f"{parameter}=None")
    lines = "\n".join(ast.unparse(ast.fix_missing_locations(each)) for each in body)
    indented = "\n".join(f"    {line}" for line in lines.splitlines())
    program.text = f"{program.text}def {name}({', '.join(shown)}):\n{indented}\n"
    return program


class _Writer(ast.NodeTransformer):
    """Checks every statement and expression of a helper, and writes the names of a library in full."""

    def __init__(self, called: Called, reader: Reader, program: Program, depth: int) -> None:
        self.called, self.reader, self.program, self.depth = called, reader, program, depth
        self.scope = Scope.at(called.tree, called.function.lineno)
        arguments = called.function.args
        self.known = {a.arg for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        self.parameters = set(self.known)
        self.known |= {
            node.id for node in ast.walk(called.function)
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
        }  # fmt: skip

        self.written = {
            parameter for parameter in self.parameters
            if _is_literal(reader.passed.get(parameter, called.defaults.get(parameter, ast.Name("_", ast.Load()))))
        }  # fmt: skip
        self.data: set[str] = set()  # what losses are computed of: it is never None
        for node in ast.walk(called.function):
            name = self.scope.canonical(node.func).removeprefix(FUNCTIONAL) if isinstance(node, ast.Call) else ""
            if isinstance(node, ast.Call) and name in LOSSES:
                self.data |= {root for each in node.args[:2] for root in self._roots(each)}
        self.divisors = {
            node.right.id for node in ast.walk(called.function)
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div) and isinstance(node.right, ast.Name)
        }  # fmt: skip
        self.labels: set[int] = set()  # constants that targets are compared with: no lengths of anything

    # ------------------------------------------------------------------------------------------- statements

    def block(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        found = [each for statement in statements for each in self._statement(statement)]
        return found or [ast.Pass()]

    def _statement(self, node: ast.stmt) -> list[ast.stmt]:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            return []
        if isinstance(node, ast.Pass):
            return [node]
        if isinstance(node, ast.Raise):
            return [ast.Raise(ast.Call(ast.Name("ValueError", ast.Load()), [], []))]
        if isinstance(node, ast.Assert):
            return [ast.Assert(self._read(node.test))]
        if isinstance(node, ast.Return) and node.value is not None:
            return [ast.Return(self._read(node.value))]
        if isinstance(node, ast.If):
            raising = isinstance(node.body[0], ast.Raise)
            return [ast.If(self._test(node.test, raising), self.block(node.body), self._else(node.orelse))]
        if isinstance(node, ast.For):
            self._check_target(node.target)
            return [ast.For(node.target, self._read(node.iter), self.block(node.body), self._else(node.orelse))]
        if isinstance(node, ast.Assign):
            for target in node.targets:
                self._check_target(target)
            divides = any(isinstance(target, ast.Name) and target.id in self.divisors for target in node.targets)
            value = self._without_eps(node.value) if divides else node.value
            return [ast.Assign(node.targets, self._read(value), lineno=0)]
        if isinstance(node, ast.AnnAssign) and node.value is not None:
            self._check_target(node.target)
            return [ast.Assign([node.target], self._read(node.value), lineno=0)]
        if isinstance(node, ast.With):
            return self._with(node)
        if isinstance(node, ast.AugAssign) and isinstance(node.target, ast.Name):
            return [self._augmented(node, node.target)]
        raise UnmodelledError(f"`{ast.unparse(node).splitlines()[0][:60]}` in {self._here} is not replayed")

    def _with(self, node: ast.With) -> list[ast.stmt]:
        """`no_grad` stays; a precision of its own is no matter of the count."""
        contexts = [each.context_expr for each in node.items if each.optional_vars is None]
        names = [self.scope.canonical(each.func) for each in contexts if isinstance(each, ast.Call)]
        if len(names) != len(node.items) or any(name not in PRECISION and name != NO_GRAD for name in names):
            raise UnmodelledError(f"`{ast.unparse(node).splitlines()[0][:60]}` in {self._here} is not replayed")
        body = self.block(node.body)
        return [ast.With([ast.withitem(_written(f"{NO_GRAD}()"))], body)] if NO_GRAD in names else body

    def _else(self, statements: list[ast.stmt]) -> list[ast.stmt]:
        return self.block(statements) if statements else []

    def _augmented(self, node: ast.AugAssign, target: ast.Name) -> ast.stmt:
        """`total += part` where `total` began as a number; a tensor of the caller's would be changed in place."""
        starts = [
            each.value for each in ast.walk(self.called.function)
            if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == target.id for t in each.targets)
        ]  # fmt: skip
        if target.id in self.parameters or not starts or not all(isinstance(each, ast.Constant) for each in starts):
            raise UnmodelledError(f"`{target.id}` in {self._here} may be changed in place")
        return ast.Assign(
            [target], ast.BinOp(ast.Name(target.id, ast.Load()), node.op, self._read(node.value)), lineno=0
        )

    def _check_target(self, target: ast.expr) -> None:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        if any(not isinstance(each, ast.Name) for part in parts for each in getattr(part, "elts", [part])):
            raise UnmodelledError(f"`{ast.unparse(target)}` in {self._here} is changed in place")

    @property
    def _here(self) -> str:
        return f"`{self.called.function.name}`"

    # ----------------------------------------------------------------------------------------------- tests

    def _test(self, node: ast.expr, raising: bool = False) -> ast.expr:
        """A test that notes its outcomes, unless numbers that the script writes down decide it."""
        self.program.tests += 1
        name = f"{self.program.name}:{self.program.tests}"
        if not self._is_decided(node):
            self.program.ways |= {f"{name} False"} if raising else {f"{name} False", f"{name} True"}
        written = self._bare(node)
        return ast.Call(ast.Name(WAY, ast.Load()), [ast.Constant(name), written], [])

    def _bare(self, node: ast.expr) -> ast.expr:
        """A test, in which alone `and` and `or` may stand: as values they would be ways that nobody notes."""
        if isinstance(node, ast.BoolOp):
            return ast.BoolOp(node.op, [self._bare(each) for each in node.values])
        return self._read(node)

    def _is_decided(self, node: ast.expr) -> bool:
        """Whether only written numbers, the number of dimensions and what is a list or None decide a test."""
        if isinstance(node, ast.BoolOp):
            return all(self._is_decided(each) for each in node.values)
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            return self._is_decided(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance":
            return True  # outputs are drawn as tensors and as lists
        if isinstance(node, ast.Compare) and isinstance(node.ops[0], (ast.Is, ast.IsNot)):
            return set(self._roots(node)) <= self.written | self.data
        shown = [n for n in ast.walk(node) if isinstance(n, ast.Name) and n.id in self.known]
        ranks = {id(n) for each in ast.walk(node) if is_rank(each) for n in ast.walk(each)}
        return all(id(n) in ranks or set(self._roots(n)) <= self.written for n in shown)

    # ------------------------------------------------------------------------------------------ expressions

    def _read(self, node: ast.expr) -> ast.expr:
        found: ast.expr = self.visit(node)
        return found

    def generic_visit(self, node: ast.AST) -> ast.AST:
        plain = (
            ast.Constant, ast.UnaryOp, ast.Compare, ast.Tuple, ast.List, ast.Slice,
            ast.Subscript, ast.ListComp, ast.GeneratorExp, ast.comprehension, ast.operator, ast.unaryop, ast.boolop,
            ast.cmpop, ast.expr_context, ast.keyword,
        )  # fmt: skip
        if not isinstance(node, plain):
            raise UnmodelledError(f"`{ast.unparse(node)[:60]}` in {self._here} is not replayed")
        if isinstance(node, ast.Constant) and type(node.value) is int and id(node) not in self.labels:
            self.program.numbers.add(node.value)
        return super().generic_visit(node)

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        return ast.IfExp(self._test(node.test), self._read(node.body), self._read(node.orelse))

    def visit_comprehension(self, node: ast.comprehension) -> ast.AST:
        if node.ifs:
            raise UnmodelledError(f"`if {ast.unparse(node.ifs[0])[:60]}` in {self._here} is not replayed")
        return self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
        right = self._without_eps(node.right) if isinstance(node.op, ast.Div) else node.right
        return ast.BinOp(self._read(node.left), node.op, self._read(right))

    def _without_eps(self, node: ast.expr) -> ast.expr:
        """A divisor `n + 1e-8` with next to nothing added: as little as does not change what is not zero."""
        small = node.right if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add) else None
        value = small.value if isinstance(small, ast.Constant) else None
        if not isinstance(value, float) or not 0 < value < LARGEST_EPS:
            return node
        assert isinstance(node, ast.BinOp)
        self.program.small = max(self.program.small, value)
        return ast.BinOp(node.left, ast.Add(), ast.Constant(NOTHING))

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if node.id in self.known:
            return node
        canonical = self.scope.canonical(node)
        if canonical in DTYPES | TYPES:
            return _written(canonical)
        made = [
            each.value for each in self.called.tree.body
            if isinstance(each, ast.Assign) and any(isinstance(t, ast.Name) and t.id == node.id for t in each.targets)
        ]  # fmt: skip
        if len(made) == 1 and _is_literal(made[0]):
            return self._read(made[0])
        raise UnmodelledError(f"`{node.id}` in {self._here} is not known")

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        if all(isinstance(each, (ast.Eq, ast.NotEq)) for each in node.ops):
            self.labels |= {id(n) for each in node.comparators for n in ast.walk(each)}
        return self.generic_visit(node)

    def visit_keyword(self, node: ast.keyword) -> ast.AST:
        if node.arg == "ignore_index":
            self.labels |= {id(each) for each in ast.walk(node.value)}
        return self.generic_visit(node)

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        canonical = self.scope.canonical(node)
        if canonical in DTYPES | TYPES:
            return _written(canonical)
        if not canonical and node.attr in ("shape", "ndim", "T", "mT", "dtype", "device"):
            return ast.Attribute(self._read(node.value), node.attr, ast.Load())
        raise UnmodelledError(f"`{ast.unparse(node)[:60]}` in {self._here} is not replayed")

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if any(isinstance(each, ast.Starred) for each in node.args) or any(each.arg is None for each in node.keywords):
            raise UnmodelledError(f"starred arguments in {self._here} are not replayed")
        canonical = self.scope.canonical(node.func)
        name = canonical.removeprefix(FUNCTIONAL)
        if canonical in FUNCTIONS | JOINED or (canonical.startswith(FUNCTIONAL) and name in LOSSES):
            self.program.partial = self.program.partial or (name in ("torch.sum", "torch.mean") and len(node.args) > 1)
            if name in LOSSES:
                self._note_loss(name, node)
            return self._rewritten(_written(canonical), node)
        if isinstance(node.func, ast.Name) and not canonical and node.func.id in BUILTINS | LOOPED:
            return self._builtin(node.func.id, node)
        if (called := find_called(self.called.tree, self.called.filename, node)) is not None:
            return self._inner(called, node)
        if not canonical and isinstance(node.func, ast.Attribute):
            return self._method(node.func, node)
        raise UnmodelledError(f"`{ast.unparse(node)[:60]}` in {self._here} is not replayed")

    def _method(self, function: ast.Attribute, node: ast.Call) -> ast.expr:
        if function.attr in DROPPED:
            return self._read(function.value)
        if function.attr == "to":
            kept = [each for each in node.args if self.scope.canonical(each) in DTYPES]
            base = self._read(function.value)
            arguments: list[ast.expr] = [_written(self.scope.canonical(each)) for each in kept[:1]]
            return ast.Call(ast.Attribute(base, "to", ast.Load()), arguments, []) if kept else base
        if function.attr not in METHODS | CUTTING:
            raise UnmodelledError(f"`.{function.attr}` in {self._here} is not replayed")
        self.program.partial = self.program.partial or (function.attr in PARTIAL and bool(node.args or node.keywords))
        return self._rewritten(ast.Attribute(self._read(function.value), function.attr, ast.Load()), node)

    def _builtin(self, name: str, node: ast.Call) -> ast.expr:
        if name in self.known:
            raise UnmodelledError(f"`{name}` in {self._here} is another thing")
        if name != "isinstance":
            return self._rewritten(ast.Name(name, ast.Load()), node)
        kinds = node.args[1].elts if isinstance(node.args[1], ast.Tuple) else [node.args[1]]
        written = [self.scope.canonical(each) or (each.id if isinstance(each, ast.Name) else "") for each in kinds]
        if any(each not in TYPES for each in written):
            raise UnmodelledError(f"`{ast.unparse(node)[:60]}` in {self._here} is not replayed")
        if isinstance(node.args[0], ast.Name) and {"list", "tuple"} & set(written):
            self.program.lists.add(node.args[0].id)
        types: list[ast.expr] = [_written(each) for each in written]
        return ast.Call(ast.Name(name, ast.Load()), [self._read(node.args[0]), ast.Tuple(types, ast.Load())], [])

    def _inner(self, called: Called, node: ast.Call) -> ast.expr:
        """A function that the helper calls: a program as well."""
        passed = called.bound(node)
        if passed is None or self.depth >= DEEPEST:
            raise UnmodelledError(f"`{ast.unparse(node)[:60]}` in {self._here} is not replayed")
        inner = read_program(called, passed, f"{self.program.name}_{len(self.program.text)}", self.depth + 1)
        self.program.text += inner.text
        self.program.numbers |= inner.numbers
        self.program.ways |= inner.ways
        self.program.small = max(self.program.small, inner.small)
        self.program.partial = self.program.partial or inner.partial
        for loss in inner.calls:
            roots = {p: [r for each in found for r in self._roots(passed.get(each))] for p, found in loss.roots.items()}
            self.program.calls.append(LossCall(loss.name, loss.arguments, roots, loss.options))
        return self._rewritten(ast.Name(inner.name, ast.Load()), node)

    def _rewritten(self, function: ast.expr, node: ast.Call) -> ast.expr:
        kept = [self.visit(each) for each in node.keywords if each.arg not in UNITS]
        return ast.Call(function, [self._read(each) for each in node.args], kept)

    # ----------------------------------------------------------------------------------------------- losses

    def _note_loss(self, name: str, node: ast.Call) -> None:
        if len(node.args) > len(POSITIONS):
            raise UnmodelledError(f"positional options of {name} in {self._here}")
        given = dict(zip(POSITIONS, node.args, strict=False))
        given |= {each.arg: each.value for each in node.keywords if each.arg is not None}
        roots = {parameter: self._roots(value) for parameter, value in given.items()}
        options = {p: ast.literal_eval(v) for p, v in given.items() if not roots[p] and _is_literal(v)}
        self.program.calls.append(LossCall(name, given, roots, options))

    def _roots(self, node: ast.expr | None) -> list[str]:
        """The parameters that an expression is made of."""
        if node is None:
            return []
        found: dict[str, None] = {}
        pending, seen = [node], set[str]()
        while pending:
            for each in ast.walk(pending.pop()):
                if not isinstance(each, ast.Name) or each.id in seen or each.id not in self.known:
                    continue
                seen.add(each.id)
                if each.id in self.parameters:
                    found[each.id] = None
                pending += sources_of(self.called.function, each.id)
        main = self.reader.read(node)
        first = next((n.id for n in ast.walk(main) if isinstance(n, ast.Name)), "") if main is not None else ""
        return sorted(found, key=lambda name: name != first)


def _written(dotted: str) -> ast.expr:
    return ast.parse(dotted, mode="eval").body


def _is_literal(node: ast.expr) -> bool:
    try:
        ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError):
        return False
    return True


def sizes_of(numbers: set[int]) -> list[dict[str, int]]:
    """Lengths of the drawn data: the usual ones, and such that a number of a helper cuts them into pieces."""
    if any(number > LARGEST_CUT for number in numbers):
        raise UnmodelledError("a number of the helper is larger than the data that are drawn")
    cut = max((number for number in numbers if number >= SMALLEST_CUT), default=0)
    return [{}, {"T": cut // 3 + 3, "U": cut // 3 + 2}] if cut else [{}]


__all__ = ["WAYS", "Program", "read_program", "sizes_of"]
