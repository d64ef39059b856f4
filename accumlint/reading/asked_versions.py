"""Whether code asks which version of a library is installed: what it does then holds for more than one."""

from __future__ import annotations

from collections.abc import Iterable

from accumlint.reading import ir
from accumlint.reading.walk import dotted, walk


def tests_version(body: Iterable[ir.Statement], library: str) -> bool:
    """Whether a test anywhere in the code asks for the version of a library."""
    return any(
        asks_version(part, library)
        for node in walk(tuple(body))
        if isinstance(node, (ir.If, ir.Conditional))
        for part in walk(node.test)
    )


def asks_version(node: object, library: str) -> bool:
    """`transformers.__version__`, `is_transformers_version(...)`, `metadata.version("transformers")`."""
    if isinstance(node, ir.Attribute) and node.name == "__version__":
        return dotted(node.value) == library
    if isinstance(node, ir.Call) and "version" in (dotted(node.function) or ""):
        return any(isinstance(each.value, ir.Constant) and each.value.value == library for each in node.arguments)
    word = _word(node).lower()
    return "version" in word and library in word


def _word(node: object) -> str:
    if isinstance(node, ir.Name):
        return node.id
    if isinstance(node, ir.Attribute):
        return node.name
    if isinstance(node, ir.Constant) and isinstance(node.value, str) and len(node.value) < 80:
        return node.value
    return ""
