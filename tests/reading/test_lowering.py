"""Each kind of syntax lowers to the IR that the contract names."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import libcst as cst
import pytest

from accumlint.reading import expressions, ir, statements
from accumlint.reading.ast_syntax import AstSyntax
from accumlint.reading.program import Module
from accumlint.reading.read import NEWLINE, read_module
from accumlint.reading.read_concrete import read_concrete
from accumlint.reading.walk import walk


def read(text: str) -> Module:
    """Read by libcst, and by `ast` to the same result wherever that can."""
    lines = NEWLINE.split(text)
    body, concrete = read_concrete(text, lines, 0)
    assert [node.node for node in walk(body)] == list(range(len(concrete)))
    module = read_module(text, "example.py")
    assert isinstance(module.syntax, AstSyntax) or not text.isascii() or "*" in text or text.startswith("type ")
    assert module.body == body
    return module


def statement(text: str) -> ir.Statement:
    (only,) = read(text).body
    return only


def expression(text: str) -> ir.Expression:
    found = statement(text)
    assert isinstance(found, ir.Evaluate)
    return found.value


# ---------------------------------------------------------------------------------- every kind is covered

UNREAD = {
    "StarredDictComp": "`{**mapping for ...}` (PEP 798) is in no released Python",
}
"""Expression kinds that lower to `Unread`, with the reason."""


def concrete(base: type[cst.CSTNode]) -> Iterator[type[cst.CSTNode]]:
    pending, seen = [base], set()
    while pending:
        for kind in pending.pop().__subclasses__():
            pending.append(kind)
            public = getattr(cst, kind.__name__, None)
            if public is kind and kind not in seen and not inspect.isabstract(kind):
                seen.add(kind)
                yield kind


def test_every_expression_kind_lowers_or_is_unread_for_a_reason() -> None:
    kinds = {kind.__name__: kind for kind in concrete(cst.BaseExpression)}
    assert len(kinds) >= 29  # of libcst 1.5
    missing = {name for name, kind in kinds.items() if kind not in expressions.LOWER}
    assert missing <= set(UNREAD)


@pytest.mark.parametrize("base", [cst.BaseSmallStatement, cst.BaseCompoundStatement])
def test_every_statement_kind_lowers(base: type[cst.CSTNode]) -> None:
    kinds = list(concrete(base))
    assert len(kinds) >= 8
    assert [kind.__name__ for kind in kinds if kind not in statements.LOWER] == []


def test_every_operator_has_a_spelling() -> None:
    tables = {
        cst.BaseBinaryOp: expressions.BINARY,
        cst.BaseUnaryOp: expressions.UNARY,
        cst.BaseBooleanOp: expressions.BOOLEAN,
        cst.BaseCompOp: expressions.COMPARE,
        cst.BaseAugOp: statements.AUGMENT,
    }
    for base, table in tables.items():
        kinds = set(concrete(base))
        assert kinds
        assert kinds == set(table)


def test_an_unknown_kind_keeps_its_sub_expressions() -> None:
    table = expressions.Table()
    found = expressions._unread(table, cst.parse_expression("a + b"))
    assert isinstance(found, ir.Unread)
    assert [type(value) for value in found.values] == [ir.Name, ir.Name]


# ------------------------------------------------------------------------------------------- expressions


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1_000", 1000),
        ("0x10", 16),
        ("1e-3", 1e-3),
        ("2j", 2j),
        ("True", True),
        ("None", None),
        ("...", ...),
        ("'a' 'b' \"c\"", "abc"),
        ("b'a' rb'\\d'", b"a\\d"),
        ("'\\n'", "\n"),
        ('"""a\r\nb"""', "a\nb"),
        ("''", ""),
        ("u'x'", "x"),
    ],
)
def test_constants(text: str, value: object) -> None:
    found = expression(text)
    assert isinstance(found, ir.Constant)
    assert found.value == value
    assert type(found.value) is type(value)


def test_a_formatted_string_holds_its_expressions_in_order() -> None:
    found = expression("'x' f'{a} {b!r:>{w}}' f'{c=}'")
    assert isinstance(found, ir.Formatted)
    assert [value.id for value in found.values if isinstance(value, ir.Name)] == ["a", "b", "w", "c"]


def test_a_docstring_is_evaluated() -> None:
    function = statement("def f():\n    'text'\n")
    assert isinstance(function, ir.Function)
    (first,) = function.body
    assert isinstance(first, ir.Evaluate)
    assert isinstance(first.value, ir.Constant)


def test_boolean_chains_are_flat_and_parentheses_are_kept() -> None:
    flat = expression("a and b and c and d")
    assert isinstance(flat, ir.Boolean)
    assert len(flat.values) == 4
    nested = expression("(a and b) and c or d")
    assert isinstance(nested, ir.Boolean)
    assert nested.operator == "or"
    inner = nested.values[0]
    assert isinstance(inner, ir.Boolean)
    assert [type(value) for value in inner.values] == [ir.Boolean, ir.Name]


def test_comparison_chain() -> None:
    found = expression("a < b is not c not in d != e")
    assert isinstance(found, ir.Compare)
    assert found.operators == ("<", "is not", "not in", "!=")
    assert len(found.comparators) == 4


def test_call_arguments() -> None:
    found = expression("f(a, *b, c=d, **e)")
    assert isinstance(found, ir.Call)
    assert [(each.keyword, each.star) for each in found.arguments] == [(None, ""), (None, "*"), ("c", ""), (None, "**")]


def test_subscripts() -> None:
    one = expression("x[a:b:c]")
    assert isinstance(one, ir.Subscript)
    assert isinstance(one.index, ir.Slice)
    for text, size in {"x[a,]": 1, "x[a, b:, ...]": 3, "x[*a]": 1}.items():
        found = expression(text)
        assert isinstance(found, ir.Subscript)
        if text == "x[*a]":
            assert isinstance(found.index, ir.Starred)
        else:
            assert isinstance(found.index, ir.Display)
            assert len(found.index.elements) == size


def test_comprehensions() -> None:
    found = expression("{k: v for k, v in x if k if v async for z in y}")
    assert isinstance(found, ir.Comprehension)
    assert found.kind == "dict"
    assert [(len(each.conditions), each.is_async) for each in found.clauses] == [(2, False), (0, True)]
    for text, kind in {"[a for a in b]": "list", "{a for a in b}": "set", "(a for a in b)": "generator"}.items():
        other = expression(text)
        assert isinstance(other, ir.Comprehension)
        assert other.kind == kind


def test_lambda_parameters() -> None:
    found = expression("lambda a, /, b=1, *c, d, **e: a")
    assert isinstance(found, ir.Lambda)
    assert [(each.name, each.kind) for each in found.parameters] == [
        ("a", "positional"),
        ("b", "positional"),
        ("c", "*"),
        ("d", "keyword"),
        ("e", "**"),
    ]


def test_displays_and_stars() -> None:
    found = expression("{**a, b: c}")
    assert isinstance(found, ir.DictDisplay)
    assert found.items[0][0] is None
    for text, kind in {"(*a, b)": "tuple", "[*a]": "list", "{*a, b}": "set", "()": "tuple"}.items():
        display = expression(text)
        assert isinstance(display, ir.Display)
        assert display.kind == kind
        assert all(isinstance(each, ir.Starred) for each in display.elements[:1])


def test_a_number_python_cannot_take_is_unread() -> None:
    from accumlint.reading.table import Table

    found = expressions.lower_expression(Table(), cst.Integer("1" + "0" * 5000))
    assert isinstance(found, ir.Unread | ir.Constant)


# -------------------------------------------------------------------------------------------- statements


def test_elif_is_nested() -> None:
    found = statement("if a:\n    b\nelif c:\n    d\nelse:\n    e\n")
    assert isinstance(found, ir.If)
    (inner,) = found.orelse
    assert isinstance(inner, ir.If)
    assert len(inner.orelse) == 1


def test_assignments() -> None:
    chained = statement("a = b, c = d")
    assert isinstance(chained, ir.Assign)
    assert len(chained.targets) == 2
    annotated = statement("a: int = 1")
    assert isinstance(annotated, ir.Assign)
    assert annotated.annotation is not None
    assert isinstance(statement("a: int"), ir.Declare)
    assert isinstance(statement("type A[T] = list[T]"), ir.Assign)
    augmented = statement("a **= b")
    assert isinstance(augmented, ir.Augment)
    assert augmented.operator == "**"


@pytest.mark.parametrize(
    ("text", "bindings"),
    [
        ("import a.b", [("a", "a")]),
        ("import a.b as c, d", [("c", "a.b"), ("d", "d")]),
        ("from a.b import c as d", [("d", "a.b.c")]),
        ("from a import (b, c,)", [("b", "a.b"), ("c", "a.c")]),
        ("from . import x", [("x", ".x")]),
        ("from .. import x as y", [("y", "..x")]),
        ("from .m import x as y", [("y", ".m.x")]),
        ("from ..m.n import x", [("x", "..m.n.x")]),
        ("from a.b import *", [("*", "a.b")]),
        ("from .m import *", [("*", ".m")]),
        ("from . import *", [("*", ".")]),
    ],
)
def test_imports(text: str, bindings: list[tuple[str, str]]) -> None:
    found = statement(text)
    assert isinstance(found, ir.Import)
    assert list(found.bindings) == bindings


def test_generators() -> None:
    module = read(
        "def a(): yield 1\n"
        "def b():\n    def c(): yield\n    return lambda: (yield)\n"
        "def d(): return [(yield x) for x in y]\n"
        "async def e(x=(yield)): pass\n"
        "def f(): z = yield from g()\n"
        "class C:\n    x = 1\n    async def m(self): yield\n"
    )
    found = {each.name: each.is_generator for each in walk(module.body) if isinstance(each, ir.Function)}
    assert found == {"a": True, "b": False, "c": True, "d": True, "e": False, "f": True, "m": True}


def test_functions_and_classes() -> None:
    function = statement("@a\n@b.c(1)\nasync def f[T](x, /, *, y: int = 1) -> T: pass\n")
    assert isinstance(function, ir.Function)
    assert function.is_async
    assert len(function.decorators) == 2
    assert [each.kind for each in function.parameters] == ["positional", "keyword"]
    definition = statement("class A(B, *C, metaclass=D, **kw): pass\n")
    assert isinstance(definition, ir.Class)
    assert isinstance(definition.bases[1], ir.Starred)
    assert [(each.keyword, each.star) for each in definition.keywords] == [("metaclass", ""), (None, "**")]


def test_try() -> None:
    found = statement("try:\n    a\nexcept B as e:\n    c\nexcept:\n    d\nelse:\n    f\nfinally:\n    g\n")
    assert isinstance(found, ir.Try)
    assert [each.name for each in found.handlers] == ["e", None]
    assert found.handlers[1].kind is None
    assert len(found.orelse) == len(found.final) == 1
    assert isinstance(statement("try:\n    a\nexcept* B:\n    c\n"), ir.Try)


def test_match() -> None:
    found = statement(
        "match x:\n    case {'a': y, **rest} if y: pass\n    case A(b, c=[d, *e]) | (f as g): pass\n"
        "    case -1: pass\n    case None: pass\n    case M.N: pass\n    case _: pass\n"
    )
    assert isinstance(found, ir.Match)
    assert [set(each.names) for each in found.cases] == [{"y", "rest"}, {"b", "d", "e", "f", "g"}] + [set()] * 4
    assert [type(each.value) for each in found.cases[2:]] == [ir.Unary, ir.Constant, ir.Attribute, type(None)]
    assert [each.is_wildcard for each in found.cases] == [False] * 5 + [True]
    assert found.cases[0].guard is not None


def test_with_delete_scope_and_several_on_a_line() -> None:
    found = statement("async with (a as b, c): pass\n")
    assert isinstance(found, ir.With)
    assert found.is_async
    assert [target is None for _, target in found.items] == [False, True]
    deleted = statement("del a, b[0]")
    assert isinstance(deleted, ir.Delete)
    assert len(deleted.targets) == 2
    names = statement("nonlocal a, b")
    assert isinstance(names, ir.Scope)
    assert (names.kind, names.names) == ("nonlocal", ("a", "b"))
    assert [type(each) for each in read("a; b = 1; pass\nif x: break; continue\n").body] == [
        ir.Evaluate,
        ir.Assign,
        ir.Pass,
        ir.If,
    ]
