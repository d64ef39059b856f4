"""Offsets, lines and columns in three units."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumlint.source.positions import Positions

texts = st.text(alphabet="a\té日\U0001f600\n\r\f\u2028", max_size=30)


@given(texts)
def test_offset_and_position_are_inverse(text: str) -> None:
    positions = Positions(text)
    for offset in range(len(text) + 1):
        line, column = positions.position(offset)
        assert positions.offset(line, column) == offset
    assert [positions.line(line + 1) for line in range(positions.line_count)] == (
        text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    )


@given(texts)
def test_columns_in_other_units_measure_the_encoded_text(text: str) -> None:
    positions = Positions(text)
    for line in range(1, positions.line_count + 1):
        content = positions.line(line)
        for column in range(len(content) + 1):
            units = len(content[:column].encode("utf-16-le")) // 2
            assert positions.utf16_column(line, column) == units
            assert positions.column_from_utf16(line, units) == column
            count = len(content[:column].encode())
            assert positions.utf8_column(line, column) == count
            assert positions.column_from_utf8(line, count) == column


def test_ast_columns_are_understood() -> None:
    text = "été = '\U0001f600'; z = f(日, b)\n"
    name = next(node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name) and node.id == "b")
    column = Positions(text).column_from_utf8(name.lineno, name.col_offset)
    assert text[column] == "b"


def test_a_column_inside_a_character_is_before_it_and_one_past_the_end_is_the_end() -> None:
    positions = Positions("a\U0001f600b\r\nc")
    assert positions.column_from_utf16(1, 2) == 1
    assert positions.column_from_utf8(1, 3) == 1
    assert positions.column_from_utf16(1, 99) == 3
    assert positions.column_from_utf8(1, 99) == 3


@pytest.mark.parametrize(("line", "column"), [(0, 0), (3, 0), (1, 4), (2, 2), (1, -1)])
def test_places_that_are_not_there_raise(line: int, column: int) -> None:
    with pytest.raises(ValueError, match=r"there is no line|has no column"):
        Positions("ab\nc").offset(line, column)


def test_offsets_that_are_not_there_raise() -> None:
    with pytest.raises(ValueError, match="outside the text"):
        Positions("ab").position(3)
