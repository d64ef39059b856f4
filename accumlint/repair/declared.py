"""Whether the counts of a repaired text that are declared are those of the contracts, read off the text again."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from accumlint.reading.program import Module
from accumlint.repair.hidden import count_at_call
from accumlint.repair.rewrite import Layout, Unplannable
from accumlint.semantics.run import Result
from accumlint.semantics.trace import BACKWARD
from accumlint.semantics.values import Hidden


def undeclared(after: Module, results: Sequence[Result], obligations: Iterable[Any]) -> str:
    """The first count that is not the one of a contract as it is called in the repaired text; "" if all are."""
    try:
        layout = Layout(after)
        counts = {_normal(count_at_call(layout, hidden)) for hidden in _hidden(results)}
    except (Unplannable, RecursionError) as problem:
        return str(problem) or "the file is too deep for the rewriter"
    for each in obligations:
        if _normal(_unwrapped(each.count_text)) not in counts:
            return f"`{each.count_text}` is not the count of the contract at its call"
    return ""


def _hidden(results: Iterable[Result]) -> Iterator[Hidden]:
    for result in results:
        for trace in result.default:
            for event in trace.events:
                if event.kind == BACKWARD and event.form is not None:
                    yield from (site.hidden for site, _ in event.form.terms if site.hidden is not None)


def _normal(count: str) -> str:
    return ast.unparse(ast.parse(count.strip(), mode="eval").body)


def _unwrapped(count: str) -> str:
    """The count without the `int(...)` or `float(...)` that makes a number of it."""
    node = ast.parse(count.strip(), mode="eval").body
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("int", "float"):
        return ast.unparse(node.args[0])
    return count


__all__ = ["undeclared"]
