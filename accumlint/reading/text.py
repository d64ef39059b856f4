"""The text of a node on one line, without comments: an expression whole, a compound statement's header only."""

from __future__ import annotations

import re

import libcst as cst

from accumlint.reading.spans import deep_recursion

_BLANK = re.compile(r"\s+")


def header_text(module: cst.Module, node: cst.CSTNode) -> str:
    """For example `if x % k == 0` (for an `elif` too), `for a, b in c`, `def f(x, *, y=1)`, `loss.backward()`."""
    with deep_recursion():
        return _header(module, node)


def _header(module: cst.Module, node: cst.CSTNode) -> str:
    def text(part: cst.CSTNode) -> str:
        return _one_line(module, part)

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


def _one_line(module: cst.Module, node: cst.CSTNode) -> str:
    code = module.code_for_node(node)
    if "\n" not in code and "\r" not in code and "#" not in code:
        return code.strip()
    return _join(_tokens(code))


def _join(tokens: list[str]) -> str:
    joined = ""
    for token in tokens:
        if token == " " and (not joined or joined[-1] in "([{ "):
            continue
        if token in (")", "]", "}") and joined.endswith(" "):
            joined = joined[:-1]
        joined += token
    return joined.strip()


_TOKEN = re.compile(
    r"""(?P<string>[A-Za-z]{0,2}(?:\"\"\"(?:\\.|[^\\])*?\"\"\"|\'\'\'(?:\\.|[^\\])*?\'\'\'
        |"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
      |(?P<comment>\#[^\r\n]*)
      |(?P<blank>(?:\s|\\\r?\n)+)
      |(?P<word>\w+)
      |(?P<other>.)""",
    re.VERBOSE | re.DOTALL,
)


def _tokens(code: str) -> list[str]:
    """Tokens fine enough to tell comments and line breaks from the inside of strings."""
    tokens: list[str] = []
    for found in _TOKEN.finditer(code):
        if found.lastgroup == "string":
            tokens.append(_BLANK.sub(" ", found[0]) if "\n" in found[0] else found[0])
        elif found.lastgroup == "blank":
            tokens.append(" ")
        elif found.lastgroup != "comment":
            tokens.append(found[0])
    return tokens
