"""The leaf of a mean over elements that is written by hand: `(output - target).square().mean()`."""

from __future__ import annotations

import ast

from accumlint.apis.language import Count
from accumlint.reading import ir
from accumlint.repair.counts import Leaf, in_scope_of_its_own
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Layout, Unplannable
from accumlint.semantics.values import Site


def averaged(layout: Layout, site: Site) -> ir.Expression | None:
    """What the plain mean of a site is taken over: `x` of `x.mean()` and `torch.mean(x)`; None for any other loss."""
    call = layout.nodes.get(site.node)
    if site.reduction != "mean" or site.hidden is not None or not isinstance(call, ir.Call):
        return None
    function = call.function
    if not isinstance(function, ir.Attribute) or function.name != "mean":
        return None
    if isinstance(function.value, ir.Name) and function.value.id == "torch":
        plain = len(call.arguments) == 1 and not call.arguments[0].star and call.arguments[0].keyword is None
        return call.arguments[0].value if plain else None
    return None if call.arguments else function.value


def read_mean(layout: Layout, site: Site, values: ir.Expression, names: Names) -> Leaf:
    """The mean of elements as their sum, and the number of them; what is not a name is computed once, before it."""
    expression = layout.nodes[site.node]
    assert isinstance(expression, ir.Call)
    if not site.separable:
        raise Unplannable("the loss couples the examples of a batch: no weighting makes it right")
    if in_scope_of_its_own(layout, expression):
        raise Unplannable("the loss is computed inside a lambda or comprehension")
    setup: list[str] = []
    name = layout.flat(values)
    if not isinstance(values, ir.Name):
        name = names.free("loss_values")
        setup.append(f"{name} = {_bare(layout.flat(values))}")
    text = layout.source(expression.node)
    return Leaf(site, expression, text, f"{name}.sum()", f"{name}.numel()", Count.ELEMENTS, setup=setup)


def _bare(text: str) -> str:
    """An expression without the parentheses around the whole of it."""
    try:
        same = text.startswith("(") and ast.dump(ast.parse(text)) == ast.dump(ast.parse(text[1:-1].strip()))
    except SyntaxError:
        same = False
    return text[1:-1].strip() if same else text


__all__ = ["averaged", "read_mean"]
