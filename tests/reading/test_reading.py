"""What cannot be read is refused with a reason and a place; nothing crashes or stalls the process."""

from __future__ import annotations

import gc
import time
from contextlib import suppress

import pytest

from accumlint.reading.depth import check_depth
from accumlint.reading.read import ReadError, read_module
from accumlint.reading.table import MAX_DEPTH
from accumlint.reading.walk import children, walk


def refused(text: str) -> ReadError:
    with pytest.raises(ReadError) as caught:
        read_module(text, "example.py")
    return caught.value


@pytest.mark.parametrize(
    ("text", "line", "column"),
    [("x = (\n", 1, 4), ("a\nb = = c\n", 2, 4), ("if x:\n  a\n b\n", 3, 2), ("é = 'é' 1\n", 1, 8)],
)
def test_syntax_errors_have_a_place(text: str, line: int, column: int) -> None:
    error = refused(text)
    assert (error.line, error.column) == (line, column)
    assert str(error) == f"{line}:{column}: {error.message}"


@pytest.mark.parametrize("text", ["a\nprint 'x'\n", "exec code\n", "if a:\n    print x\n", "raise E, 'x'\n"])
def test_python_2_is_named(text: str) -> None:
    assert refused(text).message.startswith("looks like Python 2")


def test_null_bytes_and_surrogates() -> None:
    assert (refused("a\nb\0").message, refused("a\nb\0").line, refused("a\nb\0").column) == (
        "contains a null byte",
        2,
        1,
    )
    assert "surrogate" in refused("x = '\ud800'").message


def test_what_only_libcst_refuses_is_reported() -> None:
    """Python's own `ast` is read first; only where that is not enough, what libcst says counts."""
    text = "if a:\n\tif b:\n        \tx\n"
    assert read_module(text, "example.py").body
    assert refused(f"é = 1\n{text}").message.startswith("libcst cannot parse this, though Python can")


def test_a_failure_of_the_parser_is_a_read_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import libcst as cst

    class PanicException(BaseException):
        pass

    for failure in (PanicException("boom"), RuntimeError("boom"), MemoryError()):

        def fail(text: str, failure: BaseException = failure) -> cst.Module:
            raise failure

        monkeypatch.setattr(cst, "parse_module", fail)
        assert refused("é = 1\n").message


def test_an_interrupt_is_not_swallowed(monkeypatch: pytest.MonkeyPatch) -> None:
    import libcst as cst

    def interrupted(text: str) -> cst.Module:
        raise KeyboardInterrupt

    monkeypatch.setattr(cst, "parse_module", interrupted)
    with pytest.raises(KeyboardInterrupt):
        read_module("é = 1\n", "example.py")
    assert gc.isenabled()


NESTED = {
    "parentheses": lambda n: "x = " + "(" * n + "1" + ")" * n,
    "lists": lambda n: "x = " + "[" * n + "]" * n,
    "calls": lambda n: "f(" * n + ")" * n,
    "unclosed": lambda n: "x = " + "(" * n,
    "unary": lambda n: "x = " + "-" * n + "1",
    "not": lambda n: "x = " + "not " * n + "1",
    "sum": lambda n: "x = 1" + " + 1" * n,
    "chain": lambda n: "x" + ".a()" * n,
    "attributes": lambda n: "x" + ".a" * n,
    "conditional": lambda n: "x = " + "1 if a else " * n + "1",
    "lambda": lambda n: "x = " + "lambda: " * n + "1",
    "f-string": lambda n: "f'" + "{a:" * n + "}" * n + "'",
    "if": lambda n: "".join(" " * i + "if x:\n" for i in range(n)) + " " * n + "pass",
    "elif": lambda n: "if x: pass\n" + "elif y: pass\n" * n,
    "mapping pattern": lambda n: "match x:\n  case " + "{1:" * n + "1" + "}" * n + ": pass",
    "class pattern": lambda n: "match x:\n  case " + "A(a=" * n + "1" + ")" * n + ": pass",
}


@pytest.mark.parametrize("kind", NESTED)
@pytest.mark.parametrize("levels", [1_000, 4_000, 12_000])
def test_deep_nesting_is_refused_quickly(kind: str, levels: int) -> None:
    if kind == "if" and levels > 2_000:
        pytest.skip("the text itself would be too long")
    start = time.process_time()
    assert refused(NESTED[kind](levels) + "\n").message == "nested too deeply"
    assert time.process_time() - start < 5


@pytest.mark.parametrize("kind", NESTED)
def test_moderate_nesting_is_read(kind: str) -> None:
    if kind == "unclosed":
        return
    levels = 5 if "pattern" in kind else 30
    assert read_module(NESTED[kind](levels) + "\n", "example.py").body


@pytest.mark.parametrize(
    "text",
    [
        "x = a" + " and b" * 12_000,
        "x = (" + "'a'\n" * 12_000 + ")",
        "x = [1" + " for a in b" * 4_000 + "]",
        "x = " + "x = " * 3_000 + "1",
        "f(" + "a, " * 5_000 + ")",
        "x = 1" + "0" * 5_000,
        "x = '" + "a" * 1_000_000 + "'",
        "x = " + "(" * 12_000 + "1 2" + ")" * 12_000,
        "# " + "(" * 12_000,
        "'''" + "(" * 12_000 + "'''",
    ],
)
def test_long_statements_do_no_harm(text: str) -> None:
    with suppress(ReadError):
        assert read_module(text, "example.py").body is not None


def test_the_depth_of_what_is_read_is_bounded() -> None:
    for levels in range(60, 260, 20):
        try:
            module = read_module("x = " + "-" * levels + "1\n", "example.py")
        except ReadError:
            assert levels > MAX_DEPTH - 10
            continue
        depth, level = 0, list(module.body)
        while level:
            depth, level = depth + 1, [child for node in level for child in children(node)]
        assert depth <= MAX_DEPTH + 1
        assert module.syntax.span(0).end_line == 1
        assert module.syntax.text(0).startswith("x = -")


def test_brackets_in_strings_and_comments_do_not_count() -> None:
    check_depth("x = '((((' # [[[[\n" * 200)
    check_depth('x = """' + "(" * 5000 + '"""\n')


def test_lines_agree_with_positions() -> None:
    module = read_module("a\r\nb\rc\n\x0c\nd\u2028\n".replace("d\u2028", "'d\u2028'"), "example.py", "pkg.example")
    assert list(module.lines) == ["a", "b", "c", "\x0c", "'d\u2028'", ""]
    assert module.name == "pkg.example"


def test_ids_can_start_elsewhere() -> None:
    module = read_module("a\nb = c(1)\n", "example.py", first_id=1_000)
    assert [node.node for node in walk(module.body)] == list(range(1_000, 1_007))
    assert module.syntax.text(module.body[1].node) == "b = c(1)"
    assert module.syntax.span(module.body[1].node).line == 2


def test_time_and_ids_are_linear_in_the_lines() -> None:
    text = "def f(a):\n    for b in a:\n        b.c(d=1)\n"
    spent = []
    for copies in (1_500, 6_000):
        start = time.process_time()
        assert len(read_module(text * copies, "example.py").body) == copies
        spent.append(time.process_time() - start)
    assert spent[1] < 12 * spent[0]


def test_a_deep_caller_gets_the_same_answer() -> None:
    def call(levels: int) -> int:
        return call(levels - 1) if levels else len(read_module("x = " + "-" * 150 + "1\n", "example.py").body)

    assert call(600) == 1
