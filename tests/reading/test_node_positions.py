"""Positions: ours against libcst's own provider, and both against CPython's `ast`."""

from __future__ import annotations

import ast
import re
import sys
import warnings
from collections import defaultdict

import libcst as cst
import pytest
from reading_corpus import CHUNKS, chunk, source, standard_library

from accumlint.reading import ir, spans, syntax
from accumlint.reading.program import Module, Span
from accumlint.reading.read import NEWLINE, ReadError
from accumlint.reading.read_concrete import read_concrete
from accumlint.reading.spans import compute_spans, provider_spans
from accumlint.reading.syntax import ConcreteSyntax
from accumlint.reading.walk import walk

COMPARED: dict[type, tuple[type[ast.AST], ...]] = {
    ir.Call: (ast.Call,),
    ir.Name: (ast.Name,),
    ir.Attribute: (ast.Attribute,),
    ir.Binary: (ast.BinOp,),
    ir.Compare: (ast.Compare,),
    ir.Subscript: (ast.Subscript,),
    ir.If: (ast.If,),
    ir.For: (ast.For, ast.AsyncFor),
    ir.While: (ast.While,),
    ir.With: (ast.With, ast.AsyncWith),
    ir.Function: (ast.FunctionDef, ast.AsyncFunctionDef),
    ir.Class: (ast.ClassDef,),
    ir.Assign: (ast.Assign, ast.AnnAssign),
    ir.Augment: (ast.AugAssign,),
    ir.Return: (ast.Return,),
}
ONE_OF_EACH = (
    "@d\nasync def f(a: int = 1):\n    async for x in y: pass\n    async with (a as b): await c\n"
    "if a: b = (1 +\n  2)  # c\nelif (c): pass\nelse:\n    while x:\n        d(e)[f:g, *h]\n"
    "class A(*B, metaclass=C): x: int\ntry: pass\nexcept* E as e: raise\nmatch a:\n    case 1 | 2 if b: pass\n"
    "x = (yield); del a, (b); from . import (c, d,); lambda a, *b, c=1: [i for i in j if k]\n"
)


def read(text: str) -> tuple[Module, ConcreteSyntax]:
    """The reading by libcst; that by `ast` has its own test."""
    lines = NEWLINE.split(text)
    body, concrete = read_concrete(text, lines, 0)
    return Module("example.py", body, concrete, "", lines), concrete


def nodes_of(concrete: ConcreteSyntax) -> list[cst.CSTNode]:
    return [concrete.node(number) for number in range(len(concrete))]


def expected_spans(text: str) -> dict[type, set[Span]]:
    """Of `ast`, by the kind of node; its columns count UTF-8 bytes, ours code points."""
    lines = re.split(r"\r\n?|\n", text)

    def column(line: int, offset: int) -> int:
        return offset if lines[line - 1].isascii() else len(lines[line - 1].encode()[:offset].decode())

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tree = ast.parse(text)
    found: dict[type, set[Span]] = defaultdict(set)
    for node in ast.walk(tree):
        if isinstance(node, ast.expr | ast.stmt) and node.end_lineno is not None:
            start, end = column(node.lineno, node.col_offset), column(node.end_lineno, node.end_col_offset or 0)
            found[type(node)].add(Span(node.lineno, start, node.end_lineno, end))
    return found


def formatted_parts(module: Module) -> set[int]:
    """Before Python 3.12 `ast` has no true positions inside f-strings."""
    return {below.node for node in walk(module.body) if isinstance(node, ir.Formatted) for below in walk(node)}


def assert_as_ast(text: str, module: Module) -> int:
    expected = expected_spans(text)
    skipped = formatted_parts(module)
    compared = 0
    for node in walk(module.body):
        if type(node) in COMPARED and node.node not in skipped:
            span = module.syntax.span(node.node)
            assert any(span in expected[kind] for kind in COMPARED[type(node)]), (node, span)
            compared += 1
    return compared


def test_the_corpus_is_large_enough() -> None:
    assert len(standard_library()) > 500


@pytest.mark.parametrize("number", range(CHUNKS))
def test_the_standard_library_lowers_and_has_the_positions_of_ast(number: int) -> None:
    visited = refused = compared = 0
    for path in chunk(number):
        text = source(path)
        if text is None:
            refused += 1
            continue
        try:
            module, concrete = read(text)
        except ReadError:
            refused += 1
            continue
        visited += 1
        assert [node.node for node in walk(module.body)] == list(range(len(concrete))), path
        try:
            compared += assert_as_ast(text, module)
        except SyntaxError:
            refused += 1
        if visited % 10 == 0 and "\f" not in text and len(concrete):
            nodes = nodes_of(concrete)
            assert provider_spans(concrete.module, nodes) == compute_spans(concrete.module, nodes, text), path
    assert visited >= 60
    assert refused <= 3
    assert compared > 5_000


@pytest.mark.parametrize(
    "text",
    [
        ONE_OF_EACH,
        ONE_OF_EACH.replace("\n", "\r\n"),
        ONE_OF_EACH.replace("\n", "\r"),
        ONE_OF_EACH.replace("    ", "\t"),
        re.sub(r"\bx\b", "größe", re.sub(r"\by\b", "'💥é' + x", ONE_OF_EACH)),
    ],
    ids=["plain", "crlf", "cr", "tabs", "unicode"],
)
def test_recorder_provider_and_ast_agree(text: str) -> None:
    module, concrete = read(text)
    nodes = nodes_of(concrete)
    assert compute_spans(concrete.module, nodes, text) == provider_spans(concrete.module, nodes)
    if "except*" not in text or hasattr(ast, "TryStar"):
        assert assert_as_ast(text, module) > 30


@pytest.mark.parametrize(
    "text",
    [
        "x = 1\n\fdef f():\n\tloss.backward()\n\f\tloss.step(a)\n\f\n\ny = '\f'; z(1)\n",
        "if a:\n  b(1)\n  \n\f  c(\n  2)\n",
        "s = '''a\r\nb\u2028'''; f(x)\r\ng(y)\r\n",
        "x = \\\n    f(1); y(2) # \f c\nz(3)",
        "\ufeffloss.backward()\nf(x)\n",
    ],
)
def test_form_feeds_line_ends_and_continuations(text: str) -> None:
    module, _ = read(text)
    assert assert_as_ast(text.removeprefix("\ufeff"), module) > 2


def test_the_public_provider_stands_in(monkeypatch: pytest.MonkeyPatch) -> None:
    _, concrete = read(ONE_OF_EACH)
    nodes = nodes_of(concrete)
    expected = compute_spans(concrete.module, nodes, ONE_OF_EACH)
    monkeypatch.setitem(sys.modules, "accumlint.reading.recorder", None)
    assert spans.compute_spans(concrete.module, nodes, ONE_OF_EACH) == expected


def test_positions_are_computed_once_and_only_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    original = syntax.compute_spans
    monkeypatch.setattr(syntax, "compute_spans", lambda *given: calls.append(1) or original(*given))
    _, concrete = read(ONE_OF_EACH)
    assert concrete.text(0)
    assert not calls
    concrete.span(0)
    concrete.span(3)
    assert calls == [1]


def test_statements_start_at_their_keyword() -> None:
    text = "@d\n@e(1)\nasync def f():\n    pass\nif a:\n    pass\nelif b:\n    pass\n  # c\n(loss).backward()\n"
    module, concrete = read(text)
    function, branch, call = module.body
    assert isinstance(branch, ir.If)
    assert isinstance(call, ir.Evaluate)
    assert concrete.span(function.node) == Span(3, 0, 4, 8)
    assert concrete.span(branch.node) == Span(5, 0, 8, 8)
    assert concrete.span(branch.orelse[0].node) == Span(7, 0, 8, 8)
    assert concrete.span(call.node) == concrete.span(call.value.node) == Span(10, 0, 10, 17)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if (x %  # comment\n        k == 0):\n    pass\n", "if (x % k == 0)"),
        ("for a, b in enumerate(\n    loader,  # the loader\n):\n    pass\n", "for a, b in enumerate(loader,)"),
        ("async def f(a, *, b: int = 1):\n    pass\n", "async def f(a, *, b: int = 1)"),
        ("class A(B, c=D):\n    pass\n", "class A(B, c=D)"),
        ("with a as b, \\\n        c: pass\n", "with a as b, c"),
        ("while True: pass\n", "while True"),
        ("try: pass\nfinally: pass\n", "try"),
        ("match x:\n    case _: pass\n", "match x"),
        ("loss.backward(); y\n", "loss.backward()"),
        ("x = f('#  no comment',  # but this\n      2)\n", "x = f('#  no comment', 2)"),
        ('x = """a\n  b"""\n', 'x = """a b"""'),
    ],
)
def test_text_is_one_line_without_comments(text: str, expected: str) -> None:
    module, concrete = read(text)
    assert concrete.text(module.body[0].node) == expected


def test_is_exact_says_whether_the_code_round_trips() -> None:
    assert read("a\r\nb\n")[1].is_exact
    assert not read("\fdef f(): pass\n")[1].is_exact
