"""Notebooks: one module over the code cells, and only what changed is written."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from accumlint.source.notebook import NotebookText, NotPythonError, read_bytes, read_path
from accumlint.source.text import Location, SourceError, SourceText


def notebook(*sources: object, indent: int | None = 1, ensure_ascii: bool = False, **metadata: object) -> bytes:
    """A notebook whose code cells have these sources, a Markdown cell first."""
    cells: list[dict[str, Any]] = [{"cell_type": "markdown", "metadata": {}, "source": ["# Training"]}]
    cells += [
        {"cell_type": "code", "execution_count": None, "metadata": {}, "outputs": [], "source": source}
        for source in sources
    ]
    content = {"cells": cells, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(content, indent=indent, ensure_ascii=ensure_ascii).encode() + b"\n"


def read(*sources: object) -> NotebookText:
    return NotebookText.from_bytes("a.ipynb", notebook(*sources))


MAGIC_CELL = [
    "%matplotlib inline\n",
    "!pip install \\\n",
    "    torch\n",
    "files = !ls\n",
    "timing = %timeit -o f()\n",
    "model?\n",
    "?model\n",
    "for x in loader:\n",
    "    %time step()\n",
    "    loss.backward()\n",
    "print('50 %s' % a,\n",
    "  b\n",
    "  % c)\n",
    '"""\n',
    "!not a magic\n",
    "%nor this\n",
    '"""\n',
    "y = 17 \\\n",
    "% 2\n",
    "q = 'on \\\n",
    "%time in a string'\n",
    "z = 'it\\'s' # why?\n",
    "s = f'{d[\"k\"]!r}'",
]


def test_magics_are_masked_and_the_rest_is_python_at_its_lines() -> None:
    source = read(MAGIC_CELL)
    ast.parse(source.text)
    assert source.lines[0].startswith("# ")
    kept = [line for line in source.lines[1:] if "accumlint-magic" not in line]
    masked = [line.rstrip("\n") for line in MAGIC_CELL if line.rstrip("\n") not in kept]
    assert masked == [
        "%matplotlib inline",
        "!pip install \\",
        "    torch",
        "files = !ls",
        "timing = %timeit -o f()",
        "model?",
        "?model",
        "    %time step()",
    ]
    for number, line in enumerate(MAGIC_CELL, 1):
        assert source.display_lines[source.line_of(Location(2, number)) - 1] == line.rstrip("\n")
    assert source.lines[4].startswith("files = get_ipython()")


def test_lines_are_located_by_cell_among_all_cells() -> None:
    source = read(["a\n", "b"], [], ["c"])
    places = [(line, source.locate(number)) for number, line in enumerate(source.lines, 1) if line in "abc" and line]
    assert places == [("a", Location(2, 1)), ("b", Location(2, 2)), ("c", Location(4, 1))]
    assert [source.line_of(place) for _, place in places] == [2, 3, 7]
    assert source.locate(1) == Location(2, 1)


def test_a_cell_in_another_language_is_blank_and_one_under_time_is_not() -> None:
    source = read("%%bash\nls |\n", "%%time\nx = 1\n")
    assert source.text.count("\n") == 8
    assert "ls |" not in source.text
    assert "x = 1" in source.lines
    assert "ls |" in source.display_lines
    foreign = json.loads(notebook("SELECT 1"))
    foreign["cells"][1]["metadata"] = {"vscode": {"languageId": "sql"}}
    assert "SELECT" not in NotebookText.from_bytes("a.ipynb", json.dumps(foreign).encode()).text


def test_the_edit_of_one_cell_changes_its_source_alone() -> None:
    before = notebook(["x = 1\n", "y = 2"], "s = 'one string'", ["%time z\n", "w = 'é'\n"], indent=2)
    source = NotebookText.from_bytes("a.ipynb", before)
    after = source.encode(source.text.replace("y = 2", "y = 3\nv = 4"))
    assert after == before.replace(b'"y = 2"\n', b'"y = 3\\n",\n        "v = 4"\n')
    after = source.encode(source.text.replace("one", "another"))
    assert after == before.replace(b"one", b"another")
    after = source.encode(source.text.replace("w =", "new ="))
    assert after == before.replace(b"w =", b"new =")
    assert source.edited_cells(source.text.replace("w =", "new =")) == {4: "%time z\nnew = 'é'\n"}


code_lines = st.sampled_from(
    ["x = 1", "  ", "", "# é \u2028 \U0001f600", 's = "a\\\\b/"', "%time x", "!ls \\", "y = !ls"]
)
line_ends = st.sampled_from(["\n", "\n", "\r\n"])


@st.composite
def cell_sources(draw: st.DrawFn) -> list[str] | str:
    lines = [line + draw(line_ends) for line in draw(st.lists(code_lines, max_size=4))]
    if lines and draw(st.booleans()):
        lines[-1] = lines[-1].rstrip("\r\n")
    lines = [line for line in lines if line]
    return lines if draw(st.booleans()) else "".join(lines)


@given(st.lists(cell_sources(), max_size=4), st.sampled_from([None, 0, 1, 4]), st.booleans(), st.booleans())
def test_a_notebook_comes_back_and_an_edit_leaves_every_other_byte(
    sources: list[list[str] | str], indent: int | None, ensure_ascii: bool, bom: bool
) -> None:
    data = (b"\xef\xbb\xbf" if bom else b"") + notebook(*sources, indent=indent, ensure_ascii=ensure_ascii)
    source = NotebookText.from_bytes("a.ipynb", data)
    assert source.encode(source.text) == data
    assert len(source.lines) == len(source.display_lines)
    for cell in source.cells:
        expected = sources[cell.number - 2]
        joined = "".join(expected)
        assert cell.source == joined
        line = source.line_of(Location(cell.number, 1))
        lines = source.text.split("\n")
        edited = source.encode("\n".join([*lines[: line - 1], "added = 0", *lines[line - 1 :]]))
        # What must be there now, computed from the sources alone: the old lines with one before them.
        new = ["added = 0\n", *expected] if isinstance(expected, list) else "added = 0\n" + joined
        again = json.loads(edited[3 * bom :])
        assert "".join(again["cells"][cell.number - 1]["source"]) == "".join(new)
        if isinstance(expected, str) or len(expected) > 1:
            wanted = [new if index == cell.number - 2 else old for index, old in enumerate(sources)]
            form = notebook(*wanted, indent=indent, ensure_ascii=ensure_ascii)
            # A document of ASCII with nothing escaped does not tell its style.
            if not data.isascii() or b"\\u" in data:
                assert edited == data[: 3 * bom] + form


def test_compact_and_single_line_arrays_keep_their_layout() -> None:
    compact = json.dumps(json.loads(notebook(["a"])), separators=(",", ":")).encode()
    source = NotebookText.from_bytes("a.ipynb", compact)
    assert source.encode(source.text.replace("a\n", "a\nb\n")) == compact.replace(b'["a"]', b'["a\\n","b"]')
    one = NotebookText.from_bytes("a.ipynb", notebook(["a"], indent=None))
    assert b'["a\\n", "b"]' in one.encode(one.text.replace("a\n", "a\nb\n"))
    wide = NotebookText.from_bytes("a.ipynb", notebook(["a"], indent=2))
    assert b'[\n        "a\\n",\n        "b"\n      ]' in wide.encode(wide.text.replace("a\n", "a\nb\n"))


def test_odd_spacing_between_elements_is_kept() -> None:
    odd = notebook(["a\n", "b"], indent=None).replace(b'"a\\n", "b"', b'"a\\n" ,  "b"')
    source = NotebookText.from_bytes("a.ipynb", odd)
    assert source.encode(source.text.replace("b\n", "b\nc\n")) == odd.replace(b'"b"', b'"b\\n" ,  "c"')


@pytest.mark.parametrize(
    ("escaped", "raw", "written"),
    [
        (b"\\u00e9", b"", b"\\u00fc"),
        (b"\\u00e9", "é".encode(), "ü".encode()),
        (b"\\\\u00e9", b"", "ü".encode()),  # a backslash in the code and then a "u", as in LaTeX
        (b"\\u001b", b"", "ü".encode()),  # control characters are escaped in every style
    ],
)
def test_characters_are_escaped_as_the_document_escapes_them(escaped: bytes, raw: bytes, written: bytes) -> None:
    data = notebook("x = 1", "#").replace(b'"#"', b'"# ' + escaped + raw + b'"')
    source = NotebookText.from_bytes("a.ipynb", data)
    assert source.encode(source.text.replace("x = 1", "x = 'ü'")) == data.replace(b"x = 1", b"x = '" + written + b"'")


def test_untouched_lines_keep_their_spelling() -> None:
    odd = notebook(["x = 1\n", "y = 2"]).replace(b'"x = 1\\n"', b'"\\u0078 = 1\\u000a"')
    source = NotebookText.from_bytes("a.ipynb", odd)
    assert source.encode(source.text.replace("y = 2", "y = 3")) == odd.replace(b"y = 2", b"y = 3")


def test_a_key_that_occurs_twice_means_the_last() -> None:
    twice = notebook("x = 1").replace(b'"source": "x = 1"', b'"source": "old", "source": "x = 1"')
    source = NotebookText.from_bytes("a.ipynb", twice)
    assert source.encode(source.text.replace("x = 1", "x = 2")) == twice.replace(b"x = 1", b"x = 2")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("# %% accumlint-cell 3\n", "", "beyond one cell"),
        ("x = 1\n# %% accumlint-cell 3", "# %% accumlint-cell 3\nx = 1 # %% accumlint-cell 2", None),
        ("pass  # accumlint-magic 0", "pass", "removes a magic"),
        ("pass  # accumlint-magic 0", "go()  # accumlint-magic 0", "changes a magic"),
        ("get_ipython()  #", "get_ipython()[0]  #", "changes a magic"),
        ("# %% accumlint-cell 4\n", "# %% accumlint-cell 4\nx = 2", "not Python"),
    ],
)
def test_edits_of_what_is_masked_are_refused(old: str, new: str, words: str | None) -> None:
    source = read("%time\nx = 1", "y = !ls\n", "%%bash\nls")
    assert old in source.text
    edited = source.text.replace(old, new)
    if words is None:
        assert source.edited_cells(edited) == {2: "%time", 3: "x = 1 # %% accumlint-cell 2\ny = !ls\n"}
        return
    with pytest.raises(SourceError, match=words):
        source.encode(edited)


def test_a_masked_line_may_be_moved_and_indented() -> None:
    source = read("%time\nx = 1")
    edited = source.text.replace("pass  #", "if x:\n    pass  #")
    assert source.edited_cells(edited) == {2: "if x:\n    %time\nx = 1"}


def test_the_markers_avoid_names_in_use() -> None:
    source = read("# %% accumlint-cell 2\n# accumlint-magic 0\n%time")
    assert source.encode(source.text) == source.data
    assert source.edited_cells(source.text + "x") == {2: "# %% accumlint-cell 2\n# accumlint-magic 0\n%time\nx"}


def test_half_a_surrogate_pair_and_a_null_character_mask_their_cell() -> None:
    data = notebook("x", "y").replace(b'"x"', b'"\\ud800"').replace(b'"y"', b'"\\u0000"')
    source = NotebookText.from_bytes("a.ipynb", data)
    source.text.encode()
    assert "\0" not in source.text
    assert source.encode(source.text) == data


@pytest.mark.parametrize(
    ("data", "words", "line"),
    [
        (b'{"cells": [\n]', "not JSON", 2),
        (b"[]", "not an object", 1),
        (b"{}", "no list of cells", 1),
        (b'{"cells": [1]}', "no list of cells", 1),
        (b'{"worksheets": []}', "format 3", 1),
        (b'{"cells": [\n{"cell_type": "code"}]}', "cell 1 of the notebook has no source", 2),
        (b'{"cells": [{"cell_type": "code", "source": [1]}]}', "has no source", 1),
        (b'{\n"\xe9": 1}', "not encoded in UTF-8", 2),
        (b"[" * 100_000, "nested too deeply|not JSON", 1),
    ],
)
def test_what_is_no_notebook_is_refused_in_one_line(data: bytes, words: str, line: int) -> None:
    with pytest.raises(SourceError, match=words) as caught:
        NotebookText.from_bytes("a.ipynb", data)
    assert caught.value.line == line
    assert not isinstance(caught.value, NotPythonError)


def test_another_language_is_skipped_not_refused() -> None:
    for metadata in ({"kernelspec": {"language": "R"}}, {"language_info": {"name": "julia"}}):
        with pytest.raises(NotPythonError, match="not in Python"):
            NotebookText.from_bytes("a.ipynb", notebook("x", **metadata))
    assert NotebookText.from_bytes("a.ipynb", notebook("x", language_info={"name": "python"})).cells


def test_a_notebook_without_code_is_an_empty_module() -> None:
    source = NotebookText.from_bytes("a.ipynb", notebook())
    assert (source.text, source.lines, source.encode("")) == ("", [], source.data)


def test_files_are_read_by_their_suffix(tmp_path: Path) -> None:
    path = tmp_path / "A.IPYNB"
    path.write_bytes(notebook("x"))
    assert isinstance(read_path(path), NotebookText)
    assert type(read_bytes("a.py", b"x")) is SourceText
