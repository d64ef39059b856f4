"""`read_module`: text in, `Module` out, or a `ReadError` that says where and why.

Python's own `ast` is read where it can be: it costs a tenth of libcst. Both give the same IR with the same ids, so what
`ast` does not tell (where the parentheses of a tuple are) is asked of libcst, for that file only.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from accumlint.reading import ir
from accumlint.reading.ast_expressions import UnlikeError
from accumlint.reading.ast_statements import lower_statements
from accumlint.reading.ast_syntax import AstSyntax
from accumlint.reading.contracts import LossContract
from accumlint.reading.errors import TOO_DEEP, ReadError
from accumlint.reading.prefilter import parse
from accumlint.reading.program import Module
from accumlint.reading.recursion import deep_recursion, no_collection
from accumlint.reading.table import Table, TooDeepError

NEWLINE = re.compile(r"\r\n?|\n")


def read_module(
    text: str,
    filename: str,
    name: str = "",
    *,
    first_id: int = 0,
    contracts: tuple[LossContract, ...] = (),
    tree: ast.Module | None = None,
) -> Module:
    """Parse and lower one file. Raises `ReadError`; positions are not computed here.

    Node ids count up from `first_id`, so that ids of several modules can be told apart. `tree` is what `parse` made of
    the text, if somebody asked already.
    """
    lines = NEWLINE.split(text)
    if "\0" in text:
        before = NEWLINE.split(text[: text.index("\0")])
        raise ReadError("contains a null byte", len(before), len(before[-1]))
    lowered = _read_ast(text, tree, first_id)
    if lowered is not None:
        body, table = lowered
        by_ast = AstSyntax(body, table.nodes, text, lines, first_id)
        module = Module(filename, body, by_ast, name, lines, contracts)
        if not first_id:  # of a followed module nobody asks for them
            module.nodes_made(table.lowered)
        return module
    from accumlint.reading.read_concrete import read_concrete

    body, syntax = read_concrete(text, lines, first_id)
    return Module(filename, body, syntax, name, lines, contracts)


def on_concrete_tree(module: Module) -> Module | None:
    """The same module with the places and texts that libcst gives: what a repair rewrites is its concrete tree.

    None where libcst refuses the file, or sees other statements in it than `ast` did."""
    if not isinstance(module.syntax, AstSyntax):
        return module
    concrete = module.syntax.concrete
    return None if concrete is None else replace(module, syntax=concrete)


def _read_ast(text: str, tree: ast.Module | None, first_id: ir.NodeId) -> tuple[tuple[ir.Statement, ...], Table] | None:
    """None where `ast` refuses the text, or reads it in another way than libcst: that one knows why, or better."""
    table = Table(first_id)
    try:
        with no_collection(), deep_recursion():
            tree = tree or parse(text)
            return None if tree is None else (lower_statements(table, tree.body), table)
    except TooDeepError:
        raise ReadError(TOO_DEEP) from None
    except (RecursionError, MemoryError, UnlikeError):
        return None


__all__ = ["ReadError", "on_concrete_tree", "read_module"]
