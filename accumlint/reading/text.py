"""The text of a node on one line, without comments: an expression whole, a compound statement's header only."""

from __future__ import annotations

import libcst as cst

from accumlint.reading.one_line import one_line
from accumlint.reading.recursion import deep_recursion


def header_text(module: cst.Module, node: cst.CSTNode) -> str:
    """For example `if x % k == 0` (for an `elif` too), `for a, b in c`, `def f(x, *, y=1)`, `loss.backward()`."""
    with deep_recursion():
        return _header(module, node)


def _header(module: cst.Module, node: cst.CSTNode) -> str:
    def text(part: cst.CSTNode) -> str:
        return one_line(module.code_for_node(part))

    match node:
        case cst.If() | cst.While():
            return f"{type(node).__name__.lower()} {text(node.test)}"
        case cst.For():
            return f"{_async(node.asynchronous)}for {text(node.target)} in {text(node.iter)}"
        case cst.With():
            items = ", ".join(text(item.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for item in node.items)
            return f"{_async(node.asynchronous)}with {items}"
        case cst.Try() | cst.TryStar():
            return "try"
        case cst.Match():
            return f"match {text(node.subject)}"
        case cst.FunctionDef():
            return f"{_async(node.asynchronous)}def {node.name.value}({text(node.params)})"
        case cst.ClassDef():
            arguments = [text(each.with_changes(comma=cst.MaybeSentinel.DEFAULT)) for each in _arguments(node)]
            return f"class {node.name.value}" + (f"({', '.join(arguments)})" if arguments else "")
        case cst.BaseSmallStatement():
            return text(node.with_changes(semicolon=cst.MaybeSentinel.DEFAULT))
        case _:
            return text(node)


def _arguments(node: cst.ClassDef) -> list[cst.Arg]:
    return [*node.bases, *node.keywords]


def _async(marker: cst.Asynchronous | None) -> str:
    return "" if marker is None else "async "
