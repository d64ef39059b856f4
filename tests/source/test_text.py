"""Bytes in, bytes out."""

from __future__ import annotations

import io
import sysconfig
import tokenize
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumlint.source.text import Location, SourceError, SourceText, split_keeping_ends, split_lines

ENCODINGS = {
    "": "utf-8",
    "# coding: utf-8": "utf-8",
    "# -*- coding: latin-1 -*-": "latin-1",
    "# vim: set fileencoding=cp1252 :": "cp1252",
    "# coding: shift_jis": "shift_jis",
    "# coding: gbk": "gbk",
    "# coding: koi8-r": "koi8-r",
}
PIECES = ["x = 1", "\t", "\f", "\x0b", "\x1c", "'é'", "\u2028", "日本", "\U0001f600", "# comment", " ", "\ufeff"]
LINE_ENDS = ["\n", "\r", "\r\n"]


@st.composite
def files(draw: st.DrawFn) -> tuple[bytes, str, str]:
    """A file in some encoding: its bytes, its text, the encoding."""
    cookie = draw(st.sampled_from(sorted(ENCODINGS)))
    encoding = ENCODINGS[cookie]
    body = "".join(draw(st.lists(st.sampled_from(PIECES + LINE_ENDS), max_size=12)))
    body = body.encode(encoding, "ignore").decode(encoding)
    text = (cookie + draw(st.sampled_from(LINE_ENDS)) if cookie else "") + body
    if text.startswith("\ufeff"):
        text = "#" + text
    bom = b"\xef\xbb\xbf" if encoding == "utf-8" and draw(st.booleans()) else b""
    return bom + text.encode(encoding), text, encoding


@given(files())
def test_a_file_comes_back_byte_for_byte(file: tuple[bytes, str, str]) -> None:
    data, text, encoding = file
    source = SourceText.from_bytes("a.py", data)
    assert source.text == text
    assert source.encode(source.text) == data
    # A changed text is encoded by another path than the unchanged one: it must differ in the change alone.
    assert source.encode(source.text + "y = 2") == data + "y = 2".encode(encoding)


@given(files())
def test_lines_are_numbered_as_the_tokenizer_numbers_them(file: tuple[bytes, str, str]) -> None:
    source = SourceText.from_bytes("a.py", file[0])
    normal = io.StringIO(source.text, newline=None).read()
    assert source.lines == [line.rstrip("\n") for line in io.StringIO(normal)]
    assert "".join(split_keeping_ends(source.text)) == source.text
    assert [line.rstrip("\r\n") for line in split_keeping_ends(source.text)] == source.lines


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_refused_in_one_line(data: bytes) -> None:
    source, refusal = _read(data)
    if refusal:
        assert refusal.line >= 1
        assert "\n" not in refusal.message
    if source:
        assert source.encode(source.text) == data
        assert b"\0" not in data


def _read(data: bytes) -> tuple[SourceText | None, SourceError | None]:
    try:
        return SourceText.from_bytes("a.py", data), None
    except SourceError as error:
        return None, error


def test_every_file_of_the_standard_library_comes_back() -> None:
    visited = refused = 0
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        data = path.read_bytes()
        try:
            source = SourceText.from_bytes(str(path), data)
        except SourceError:
            # What we refuse, Python refuses too: bad_coding.py and its like.
            with pytest.raises((SyntaxError, ValueError)):
                compile(data, str(path), "exec")
            refused += 1
            continue
        with tokenize.open(path) as file:
            assert source.lines == [line.rstrip("\n") for line in file], path
        visited += 1
        assert source.bom + source.text.encode(source.encoding) == data, path
    assert visited > 500
    assert refused < 20


@pytest.mark.parametrize(
    ("data", "words", "line"),
    [
        (b"\xff\xfex\0", "UTF-16", 1),
        (b"\xfe\xff\0x", "UTF-16", 1),
        (b"\xff\xfe\0\0x\0\0\0", "UTF-32", 1),
        (b"\0\0\xfe\xff", "UTF-32", 1),
        ("x = 1\n".encode("utf-16-le"), "null byte", 1),
        (b"x = 1\ny = '\0'\n", "null byte", 2),
        (b"x = 1\r\ry = '\xe9'\n", "byte 0xe9 is not valid utf-8", 3),
        (b"# coding: no-such-thing\n", "no-such-thing", 1),
        (b"#!/usr/bin/python\n# coding: no-such-thing\n", "no-such-thing", 2),
        (b"\xef\xbb\xbf# coding: latin-1\n", "encoding", 1),
        (b"# coding: utf-16\nxx", "utf-16", 1),
        (b"# coding: hex\n", "hex", 1),
        (b"# coding: rot13\n", "rot13", 1),
        (b"# coding: cp037\n", "cp037", 1),
        (b"# coding: ascii\nx = '\xe9'\n", "0xe9", 2),
    ],
)
def test_what_is_no_python_source_is_refused_with_its_line(data: bytes, words: str, line: int) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        SourceText.from_bytes("a.py", data)
    assert caught.value.line == line
    assert "\n" not in caught.value.message


def test_a_cookie_counts_on_the_first_two_lines_only() -> None:
    assert SourceText.from_bytes("a.py", b"\r\n# coding: latin-1\r\n'\xe9'").text.endswith("'é'")
    assert SourceText.from_bytes("a.py", b"#\r# coding: latin-1\r'\xe9'").encoding == "iso-8859-1"
    assert SourceText.from_bytes("a.py", b"#\r#\r# coding: latin-1\r").encoding == "utf-8"


def test_a_cookie_line_may_hold_what_it_makes_readable() -> None:
    source = SourceText.from_bytes("a.py", b"# \xe9t\xe9 coding: latin-1\n")
    assert source.text == "# été coding: latin-1\n"


def test_a_character_that_the_encoding_lacks_is_refused_with_its_place() -> None:
    source = SourceText.from_bytes("a.py", b"# coding: latin-1\nx = 1\n")
    with pytest.raises(SourceError, match=r"U\+20AC") as caught:
        source.encode("# coding: latin-1\nx = '€'\n")
    assert (caught.value.line, caught.value.column) == (2, 5)


def test_an_encoding_with_two_spellings_is_read_but_not_rewritten() -> None:
    data = b"# coding: utf-7\nx = '+AGE-'\n"  # "a", spelled as nobody would
    source = SourceText.from_bytes("a.py", data)
    assert source.text == "# coding: utf-7\nx = 'a'\n"
    assert source.encode(source.text) == data
    with pytest.raises(SourceError, match="round-trip"):
        source.encode(source.text + "y = 1\n")


@pytest.mark.parametrize(
    ("text", "newline"), [("", "\n"), ("a\r\nb\r\nc\n", "\r\n"), ("a\rb\r", "\r"), ("a\nb\r\n", "\n")]
)
def test_newline_is_what_most_lines_end_with(text: str, newline: str) -> None:
    assert SourceText.from_bytes("a.py", text.encode()).newline == newline


def test_lines_of_small_texts() -> None:
    assert split_lines("") == []
    assert split_lines("\n") == [""]
    assert split_lines("a\x0c\u2028b\x85c") == ["a\x0c\u2028b\x85c"]
    assert split_lines("a\r\n\nb") == ["a", "", "b"]


def test_a_plain_file_has_no_cells() -> None:
    assert SourceText.from_bytes("a.py", b"x\n").locate(1) == Location(None, 1)


def test_a_file_that_cannot_be_read_is_a_source_error(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        SourceText.from_path(tmp_path / "gone.py")
    with pytest.raises(SourceError, match="cannot be read"):
        SourceText.from_path(tmp_path)
    (tmp_path / "a.py").write_bytes(b"x\r\n")
    assert SourceText.from_path(tmp_path / "a.py").text == "x\r\n"
