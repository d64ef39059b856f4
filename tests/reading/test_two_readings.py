"""The reading by `ast` gives what the one by libcst does: IR, ids, positions, texts."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from reading_corpus import source, standard_library

from accumlint.reading.ast_syntax import AstSyntax
from accumlint.reading.read import read_module
from accumlint.reading.syntax import ConcreteSyntax
from accumlint.reading.walk import walk

ROOT = Path(__file__).parents[2]
differences = runpy.run_path(str(ROOT / "scripts" / "compare_readings.py"))["differences"]

TRICKY = [
    "x[a, b]; x[(a, b)]; x[a,]; x[a:b, c]; x[()]\n",
    "del a, b; del (a, b); del [a]; del (a), b; del a,\n",
    "f(a, *b, c=1, *d, **e); f(x for x in y); f((x for x in y))\n",
    "class A(B, *C, d=1, **f): pass\nclass G: pass\nclass H(): pass\n",
    "(a, b), c = (d), (e, (f,))\n((a)) + (b)\n((a) + b)(c)\n",
    "s = 'a' \"b\" f'{x!r:>{w}} {y=}' 'c'; b'a' b'b'; ''; f''\n",
    "with (a, b): pass\nwith (a as b, c): pass\nwith (a) as b, c: pass\nwith (yield): pass\n",
    "if a: pass\nelif (b): x = 1;\nelse: y; z;\nw\n",
    "for i in a:\n    b;\nelse:\n    c ;  # d\ne\n",
    "try: a\nexcept (B, C) as d: pass\nexcept: e\nelse: f\nfinally: g;\nh\n",
    "match a, *b:\n    case [1, x, *y] | {'k': x, **y}: pass\n    case -1 if c: pass\n    case None: pass\n"
    "    case A.B: pass\n    case A(x, y=z) as w: pass\n    case (q): pass\n    case 1+2j: pass\n    case _: pass\n",
    "@a\n@b(c)\nasync def f(a, /, b: int = 1, *args: T, c, d=2, **kw) -> R:\n"
    "    await x; yield; return (yield from y)\n",
    "lambda: (yield); lambda a, *, b=1, **c: a if b else c\n",
    "x = not a < b <= c is not d not in e; y = a and (b and c) and d or e\n",
    "é = 1; x.é(é=2)\n",
    "x = 'é'; f('ü', (a), g(b))\n",
    "x = (\n    # c\n    a  # )\n    +\n    b\n)\nf(\n  (a),  # x\n)\n",
    "a = b = (c, d); a: int; b: int = 1; a += (yield)\n",
    "import a.b.c, d as e; from . import f; from ..g import (h as i, j,); from .k import *\n",
    "print((a := 1), [*b, (c)], {**d, 'e': f}, {g, *h}, -1, +x, ~y, 1_000, 0x1F, 1e3, 2j, ...)\n",
    "x = [i async for i in a if b if c for j in d]; y = {k: v for k, v in e}\n",
    "def f(\n    a,  # one\n    b=(1, 2),  # two\n): pass\ndef g( ): pass\ndef h(a, /): pass\n",
    "global a, b\nraise A from b\nraise\nassert a, b\nreturn\n",
    "x = a\\\n  .b(\n c)\n\x0cdef f():\n\tx\n",
    "a\r\nif b:\r\n  c(1,\r\n 2)\r\n",
]
if sys.version_info >= (3, 11):
    TRICKY.append("x[*a, b]\n")


@pytest.mark.parametrize("text", TRICKY)
def test_tricky_texts(text: str) -> None:
    found = differences(text, "example.py")
    assert found == ([] if text.isascii() or "ü" in text else None)


def test_the_standard_library() -> None:
    compared = 0
    for path in standard_library()[::9]:
        text = source(path)
        found = None if text is None else differences(text, str(path), texts=False)
        assert not found, (path, found)
        compared += found is not None
    assert compared > 50


def test_our_own_files() -> None:
    compared = 0
    for path in [*sorted((ROOT / "accumlint").rglob("*.py"))[::9], *sorted((ROOT / "samples").glob("*.py"))]:
        found = differences(path.read_text(encoding="utf-8"), str(path))
        assert found == [], (path, found)
        compared += 1
    assert compared > 30


def test_a_check_without_a_hard_question_does_not_import_libcst(tmp_path: Path) -> None:
    """Not even that of a training loop with a finding."""
    file = tmp_path / "train.py"
    file.write_text(
        "def train(model, loader, optimizer, loss_of):\n    for i, (x, y) in enumerate(loader):\n"
        "        loss_of(model(x), y).backward()\n        if (i + 1) % 4 == 0:\n            optimizer.step()\n"
        "            optimizer.zero_grad()\n"
    )
    code = (
        "import sys\nfrom accumlint.cli.main import run\n"
        f"status = run(['check', '--no-cache', '--isolated', '--output-format', 'concise', {str(file)!r}])\n"
        "sys.exit(3 if {'libcst', 'torch', 'rich'} & set(sys.modules) else status)"
    )
    done = subprocess.run([sys.executable, "-c", code], check=False, capture_output=True, text=True)
    assert done.returncode == 1, (done.returncode, done.stderr)
    assert "ACC304" in done.stdout


def test_a_hard_question_is_asked_of_libcst() -> None:
    module = read_module("x = (a, b)\n", "example.py")
    assert isinstance(module.syntax, AstSyntax)
    assert module.syntax.text(2) == "(a, b)"
    assert isinstance(module.syntax.concrete, ConcreteSyntax)
    span = module.syntax.span(2)
    assert (span.column, span.end_column) == (5, 9)


def same_nodes(text: str) -> bool:
    """Whether `Module.nodes`, which the reader has in hand, are those that a walk over the module finds."""
    module = read_module(text, "example.py")
    walked = list(walk(module.body))
    return len(walked) == len(module.nodes) and all(a is b for a, b in zip(walked, module.nodes, strict=True))


@pytest.mark.parametrize("text", TRICKY)
def test_the_nodes_of_a_module_are_those_of_a_walk(text: str) -> None:
    assert same_nodes(text)


def test_the_nodes_of_the_standard_library_and_of_our_files() -> None:
    texts = [source(path) for path in standard_library()[4::9]]
    texts += [path.read_text(encoding="utf-8") for path in sorted((ROOT / "accumlint").rglob("*.py"))[4::9]]
    read = [text for text in texts if text is not None and "\0" not in text]
    assert len(read) > 60
    assert all(map(same_nodes, read))
