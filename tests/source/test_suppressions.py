"""noqa comments: what they cover, which were used, adding and removing them."""

from __future__ import annotations

import ast
import io
import re
import tokenize

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from accumlint.source.positions import Positions
from accumlint.source.suppressions import LineEdit, Suppressions, Unused, add_noqa

ACTIVE = ("ACC101", "ACC102", "ACC201", "ACC901")


def apply(text: str, edit: LineEdit) -> str:
    positions = Positions(text)
    start = positions.offset(edit.line, edit.column)
    return text[:start] + edit.content + text[positions.offset(edit.end_line, edit.end_column) :]


def remove_unused(text: str) -> str:
    """Remove what is unused, one comment after the other."""
    for _ in range(50):
        suppressions = Suppressions(text)
        unused = suppressions.unused(ACTIVE)
        if not unused:
            return text
        text = apply(text, suppressions.removal(unused[0]))
    raise AssertionError("the removal does not come to an end")


@pytest.mark.parametrize(
    ("comment", "covered"),
    [
        ("# noqa", {"ACC101", "ACC201"}),
        ("# NoQA", {"ACC101", "ACC201"}),
        ("# noqa: ACC101", {"ACC101"}),
        ("# noqa:acc101", {"ACC101"}),
        ("# noqa: ACC101,E501", {"ACC101"}),
        ("# noqa: E501 ACC101", {"ACC101"}),
        ("# noqa: E501, ACC101 ACC201", {"ACC101", "ACC201"}),
        ("# noqa: ACC1", {"ACC101"}),
        ("# noqa: ACC101 as the corpus is padded", {"ACC101"}),
        ("# noqa: ACC1012", set()),
        ("# noqa: E501", set()),
        ("#noqa", set()),
        ("#  noqa", set()),
        ("# no qa", set()),
        ("# type: ignore # noqa: ACC101", {"ACC101"}),
        ("# noqa: E501  # noqa: ACC201", {"ACC201"}),
        # flake8 sees no codes in these, hence a blanket comment.
        ("# noqa : ACC101 F401", {"ACC101", "ACC201"}),
        ("# noqa:  ACC101", {"ACC101", "ACC201"}),
        ("# noqa because", {"ACC101", "ACC201"}),
        ("# flake8: noqa", set()),
        ("# accumlint: noqa", set()),
    ],
)
def test_what_a_comment_covers_is_what_flake8_makes_of_it(comment: str, covered: set[str]) -> None:
    suppressions = Suppressions(f"x = 1\ny = 2  {comment}\n")
    assert {code for code in ("ACC101", "ACC201") if suppressions.covers(code, 2)} == covered
    assert not suppressions.covers("ACC101", 1)
    defaults = pytest.importorskip("flake8.defaults")
    pattern = next(getattr(defaults, name) for name in dir(defaults) if name.startswith("NOQA_INLINE"))
    match = pattern.search(comment)
    listed = re.split(r"[,\s]+", match["codes"].strip().upper()) if match and match["codes"] else [""]
    if comment.count("noqa") == 1:
        wanted = {code for code in ("ACC101", "ACC201") if match and code.startswith(tuple(filter(None, listed)) or "")}
        assert wanted == covered


@pytest.mark.parametrize(
    ("comment", "covered"),
    [
        ("# flake8: noqa", {"ACC101", "ACC201"}),
        ("# flake8: noqa: ACC101", {"ACC101"}),
        ("# flake8:noqa: E501,ACC2", {"ACC201"}),
        ("# FLAKE8: NoQA", {"ACC101", "ACC201"}),
        ("# accumlint: noqa", {"ACC101", "ACC201"}),
        ("# accumlint: noqa: ACC201", {"ACC201"}),
        ("# accumlint: noqa:", set()),
        ("# accumlint: noqa: all", set()),
    ],
)
def test_what_a_comment_covers_in_the_whole_file(comment: str, covered: set[str]) -> None:
    for text in (f"x = 1\n    {comment}\ny = 2\n", f"{comment}\r\nx = 1\r\ny = 2"):
        suppressions = Suppressions(text)
        assert {code for code in ("ACC101", "ACC201") if suppressions.covers(code, 3)} == covered
        assert suppressions.skips_file == (covered == {"ACC101", "ACC201"})


STATEMENTS = '''\
text = """
# noqa
"""
call(
    first,  # noqa: ACC101
    second,
)
total = 1 + \\
    2  # noqa: ACC201
for x in (
    1,
):  # noqa: ACC101
    body()
doc = """
"""  # noqa: ACC201
'''


def test_a_comment_speaks_for_all_lines_of_its_statement() -> None:
    suppressions = Suppressions(STATEMENTS)
    lines = range(1, STATEMENTS.count("\n") + 1)
    assert [line for line in lines if suppressions.covers("ACC101", line)] == [4, 5, 6, 7, 10, 11, 12]
    assert [line for line in lines if suppressions.covers("ACC201", line)] == [8, 9, 14, 15]


def test_a_comment_on_its_own_line_says_nothing_of_the_next() -> None:
    suppressions = Suppressions("# noqa: ACC101\n\nx = 1\nif x:\n    # noqa: ACC101\n    y = 2\n")
    assert [line for line in range(1, 7) if suppressions.covers("ACC101", line)] == [1, 5]


def test_line_ends_of_any_kind_count() -> None:
    suppressions = Suppressions("a = 1\rb = 2  # noqa\r\nc = '\f\u2028'\nd = 4  # noqa")
    assert [line for line in range(1, 6) if suppressions.covers("ACC101", line)] == [2, 4]


def test_what_cannot_be_tokenized_is_read_line_by_line() -> None:
    text = 's = "# noqa"\nx = 1  # noqa: ACC101\nbroken = (\ny = 2  # noqa: ACC201\n'
    suppressions = Suppressions(text)
    assert not suppressions.covers("ACC101", 1)
    assert suppressions.covers("ACC101", 2)
    assert suppressions.covers("ACC201", 4)
    assert not suppressions.covers("ACC201", 2)
    assert Suppressions(text).unused(ACTIVE) == [Unused(2, 7, 21, ("ACC101",)), Unused(4, 7, 21, ("ACC201",))]
    inside = Suppressions("call(\n  # noqa: ACC101\n")
    assert inside.unused(ACTIVE) == [Unused(2, 2, 16, ("ACC101",))]


def test_unused_codes_of_ours_are_listed_and_those_of_others_are_not() -> None:
    text = "a  # noqa: E501,ACC101,ACC201\nb  # noqa\nc  # noqa: ACC101\nd  # noqa: ACC404,ACCX1\ne  # noqa: ACC1\n"
    suppressions = Suppressions(text)
    assert suppressions.covers("ACC101", 1)
    assert suppressions.unused(ACTIVE) == [
        Unused(1, 3, 29, ("ACC201",)),
        Unused(3, 3, 17, ("ACC101",)),
        Unused(5, 3, 15, ("ACC1",)),
    ]
    # A rule that was not run may yet be why the comment is there, but one that does not exist cannot.
    assert [unused.codes for unused in suppressions.unused(ACTIVE, known=(*ACTIVE, "ACC404"))] == [
        ("ACC201",), ("ACC101",), ("ACC1",),
    ]  # fmt: skip
    assert ("ACC404",) in [unused.codes for unused in suppressions.unused(ACTIVE, known=ACTIVE)]
    assert suppressions.unused(()) == []


def test_unused_suppressions_can_be_suppressed() -> None:
    assert Suppressions("x  # noqa: ACC101,ACC901\n").unused(ACTIVE) == []
    assert Suppressions("# accumlint: noqa: ACC901\nx  # noqa: ACC101\n").unused(ACTIVE) == []
    assert Suppressions("# flake8: noqa\nx  # noqa: ACC101\n").unused(ACTIVE) == []
    assert Suppressions("# accumlint: noqa: ACC101\nx\n").unused(ACTIVE) == [Unused(1, 0, 25, ("ACC101",))]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("x = 1  # noqa: ACC101\n", "x = 1\n"),
        ("x = 1\t# noqa:ACC101,acc102", "x = 1"),
        ("x = 1  # noqa: ACC101,E501\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: E501, ACC101\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: E501, acc101, F401  ACC102 W1\r\n", "x = 1  # noqa: E501, F401 W1\r\n"),
        ("x = 1  # NOQA:ACC101 E501 (long)\n", "x = 1  # NOQA:E501 (long)\n"),
        ("x = 1  # type: ignore  # noqa: ACC101\n", "x = 1  # type: ignore\n"),
        ("x = 1  # noqa: ACC101  # type: ignore\n", "x = 1  # type: ignore\n"),
        ("x = 1  # noqa: ACC101 - the counts are equal\n", "x = 1  # the counts are equal\n"),
        ("x = 1  # why # noqa: ACC101 so\n", "x = 1  # why # so\n"),
        ("a\n    # noqa: ACC101\nb\n", "a\nb\n"),
        ("a\n# accumlint: noqa: ACC101\r\nb\n", "a\nb\n"),
        ("# flake8: noqa: ACC101, E501\nb\n", "# flake8: noqa: E501\nb\n"),
        ("a\n# noqa: ACC101", "a\n"),
        ("x = '# noqa: ACC101'\n", "x = '# noqa: ACC101'\n"),
        ("x = 1  # noqa: E501\n", "x = 1  # noqa: E501\n"),
        ("x = 1  # noqa: ACC101  # noqa: ACC102\n", "x = 1\n"),
    ],
)
def test_removal_keeps_what_is_not_ours(before: str, after: str) -> None:
    assert remove_unused(before) == after


def test_add_noqa_puts_the_comment_where_python_and_flake8_allow_it() -> None:
    text = (
        's = """\n text\n"""\nn = 1 + \\\n    2\ncall(\n    a,\n)\nx = 1  # why\n'
        "y = 2  # noqa: E501\nz = 3  # noqa\nw = 4  # noqa: E501, F401 reason\nlast = 5"
    )
    codes = {line: ["ACC101", "ACC201"] for line in (1, 4, 6, 9, 10, 11, 12, 13)}
    assert add_noqa(text, codes) == (
        's = """\n text\n"""  # noqa: ACC101,ACC201\nn = 1 + \\\n    2  # noqa: ACC101,ACC201\n'
        "call(  # noqa: ACC101,ACC201\n    a,\n)\nx = 1  # why  # noqa: ACC101,ACC201\n"
        "y = 2  # noqa: E501,ACC101,ACC201\nz = 3  # noqa\nw = 4  # noqa: E501, F401, ACC101, ACC201 reason\n"
        "last = 5  # noqa: ACC101,ACC201"
    )


def test_add_noqa_joins_the_codes_of_lines_that_share_a_comment() -> None:
    assert (
        add_noqa('s = """\n"""\n', {1: ["ACC101"], 2: ["ACC201", "ACC101"]}) == 's = """\n"""  # noqa: ACC101,ACC201\n'
    )


def test_add_noqa_leaves_alone_what_it_cannot_read() -> None:
    assert add_noqa("x = 1\ny = (\n", {1: ["ACC101"], 2: ["ACC101"]}) == "x = 1  # noqa: ACC101\ny = (\n"
    assert add_noqa("x = 1\n", {7: ["ACC101"]}) == "x = 1\n"


STATEMENT_FORMS = [
    "x = 1",
    "x = 1 \\\n  + 2",
    's = """a\n# noqa\n\n"""',
    "s = 'a\\\nb'",
    "f(\n  1,\n  [\n\n  # why\n  2],\n)",
    "f('''\n''', \\\n 3)",
    "if x:\n    y = 1",
    "# a comment",
    "x = 1; y = '''\n'''",
    "d = {'a': 1,  # first\n 'b': 2}  # noqa: E501",
    "z = 2  # noqa: F401, E501 reason",
    "t = f'''{x\n}'''",
    "",
    "\f",
]


@given(
    st.lists(st.sampled_from(STATEMENT_FORMS), min_size=1, max_size=6),
    st.sampled_from(["\n", "\r\n", "\r"]),
    st.booleans(),
    st.data(),
)
def test_what_add_noqa_adds_suppresses_and_is_removed_again(
    statements: list[str], newline: str, final: bool, data: st.DataObject
) -> None:
    text = "\n".join(statements) + "\n" * final
    lines = text.split("\n")
    candidates = [number for number, line in enumerate(lines, 1) if line.strip()]
    assume(candidates)
    chosen = data.draw(
        st.dictionaries(st.sampled_from(candidates), st.sampled_from([["ACC101"], ["ACC201", "ACC102"]]))
    )
    text = text.replace("\n", newline)
    annotated = add_noqa(text, chosen)
    # The program is the same, and so is every line but for what was added at its end or in its comment.
    assert ast.dump(ast.parse(annotated)) == ast.dump(ast.parse(text))
    assert annotated.count(newline) == text.count(newline)
    assert add_noqa(annotated, chosen) == annotated
    suppressions = Suppressions(annotated)
    assert all(suppressions.covers(code, line) for line, codes in chosen.items() for code in codes)
    assert remove_unused(annotated) == text


@given(st.text(alphabet="#noqa: ACC101,E\n\r\f\"'\\()[]é= \t", max_size=40))
def test_any_text_is_read_and_add_noqa_keeps_its_tokens(text: str) -> None:
    suppressions = Suppressions(text)
    for line in range(1, text.count("\n") + text.count("\r") + 3):
        suppressions.covers("ACC101", line)
    annotated = add_noqa(text, {1: ["ACC101"], 2: ["ACC201"]})
    assert _tokens(annotated) == _tokens(text)


def _tokens(text: str) -> list[str] | None:
    lines = io.StringIO(text, newline=None)
    skipped = (tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE)
    try:
        tokens = list(tokenize.generate_tokens(lines.readline))
    except (tokenize.TokenError, SyntaxError):
        return None
    return [token.string.strip() for token in tokens if token.type not in skipped and token.string.strip()]
