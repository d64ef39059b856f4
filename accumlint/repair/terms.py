"""A loss of several terms that all divide by one count: the whole is multiplied by it, where it is propagated."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field, replace

from accumlint.apis.language import Count
from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.ahead import bound_names
from accumlint.repair.boundary import Window
from accumlint.repair.counts import Leaf, read_leaf
from accumlint.repair.flow import by_steps, is_name, propagated, statements_before, unscaled
from accumlint.repair.hidden import changed_names
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.trace import Event
from accumlint.semantics.values import Site

OWN = "several loss terms with counts of their own"


@dataclass(slots=True)
class Whole:
    """The whole loss where it is complete: `core` without the divisions by the number of steps, `links` those."""

    core: ir.Expression
    argument: ir.Expression
    links: list[ir.Statement] = field(default_factory=list)
    name: str = ""


def plan_terms(
    window: Window, event: Event, leaf: Leaf, counter: str, draft: Draft, names: Names, *, apart: bool
) -> bool:
    """Multiply the whole loss of a microbatch by the count of its terms; what is logged stays as it is."""
    layout = window.layout
    whole = read_whole(window, event)
    counted = names.free("batch_targets" if leaf.exact else "batch_weight")
    text = layout.source(whole.core.node)
    plain = isinstance(whole.core, (ir.Name, ir.Call, ir.Attribute, ir.Subscript))
    leaf.mean_text = text
    leaf.sum_text = f"{text} * {counted}" if plain else f"({text}) * {counted}"
    before = min((window.home, *whole.links), key=lambda s: layout.range(s.node)[0])
    _check_order(window, leaf, layout.range(leaf.expression.node)[0], before)
    lines = [f"{counted} = {leaf.count_text}", *([] if apart else [f"{counter} += {counted}"])]
    leaf.site = replace(leaf.site, node=before.node)
    after = layout.range(before.node)[1]
    argument = {id(n) for n in walk(whole.argument)}
    linked = {id(n) for link in whole.links for n in walk(link)}
    uses = [
        n for n in _names_of(window) if n.id == whole.name and id(n) not in argument | linked
        and layout.range(n.node)[0] >= after
    ]  # fmt: skip
    if whole.links and uses:
        summed = names.free("loss_sum")
        draft.before(before, *lines, f"{summed} = {leaf.sum_text}")
        draft.replace_whole(whole.argument.node, summed)
        return True
    for link in whole.links:
        draft.delete(link)
    draft.before(window.home, *lines)
    received = whole.argument is getattr(window.backward.function, "value", None)
    bare = isinstance(whole.argument, (ir.Name, ir.Call, ir.Attribute, ir.Subscript))
    draft.put(*layout.range(whole.argument.node), f"({leaf.sum_text})" if received and bare else leaf.sum_text)
    return True


def term_sites(event: Event) -> list[Site]:
    """Where the terms of what a backward propagates are computed, each once; none if its loss is not understood."""
    sites: dict[int, Site] = {}
    for site, _ in event.form.terms if event.form is not None else ():
        sites.setdefault(site.node, site)
    return list(sites.values())


def read_leaves(window: Window, sites: list[Site], names: Names) -> list[Leaf]:
    """The leaves of the terms of a loss; Unplannable where one of them cannot be reached or counted."""
    layout = window.layout
    leaves: list[Leaf] = []
    for site in sites:
        if site.hidden is not None or site.node not in layout.holder:
            raise Unplannable(f"{OWN}, one of them out of sight")
        if layout.function(layout.statement(site.node)) is not window.home_function:
            raise Unplannable(f"{OWN}, one of them in a helper")
        leaves.append(read_leaf(layout, site, names))
    if any(leaf.setup for leaf in leaves):
        raise Unplannable(f"{OWN}: a target is computed by a call")
    return leaves


def shared_leaf(window: Window, event: Event, names: Names) -> Leaf:
    """The leaf of the first term, if every term has the same count; Unplannable with the first that has another."""
    leaves = read_leaves(window, term_sites(event), names)
    first = leaves[0]
    if other := next((leaf for leaf in leaves if leaf.count_text != first.count_text), None):
        raise Unplannable(f"{OWN}: `{first.count_text}` and `{other.count_text}`")
    return leaf_of_all(leaves)


def leaf_of_all(leaves: list[Leaf]) -> Leaf:
    """The leaf of the whole of several losses with one count."""
    first = leaves[0]
    if not all(leaf.finite for leaf in leaves):
        raise Unplannable("a mean of its terms has no gradient where nothing counts")
    return Leaf(
        first.site, first.expression, "", "", first.count_text, first.count if first.exact else Count.WEIGHT_SUM,
        exact=first.exact, arguments=first.arguments, factored=True,
    )  # fmt: skip


def read_whole(window: Window, event: Event) -> Whole:
    """From what is propagated back to where the loss is complete, through divisions by the number of steps only."""
    layout = window.layout
    assert event.form is not None
    divisions = by_steps(window, event.form)
    argument = propagated(window.backward)
    whole = Whole(argument, argument)
    at: ir.Statement = window.home
    left = set(divisions)
    for _ in range(12):
        expression, left = _undivided(whole.core, left)
        whole.core = expression
        if not isinstance(expression, ir.Name):
            break
        whole.name = expression.id
        link = _link(layout, at, expression.id, left)
        if link is None:
            break
        statement, value, node = link
        whole.links.append(statement)
        whole.core, at = value, statement
        left.discard(node)
    if left:
        raise Unplannable("a term of the loss is divided by the number of steps on its own")
    return whole


def _undivided(expression: ir.Expression, divisions: set[int]) -> tuple[ir.Expression, set[int]]:
    while True:
        inner = unscaled(expression)
        if isinstance(inner, ir.Binary) and inner.operator == "/" and inner.node in divisions:
            divisions = divisions - {inner.node}
            inner = inner.left
        if inner is expression:
            return expression, divisions
        expression = inner


def _link(
    layout: Layout, at: ir.Statement, name: str, divisions: set[int]
) -> tuple[ir.Statement, ir.Expression, int] | None:
    """The statement that last gave `name` its value, if it does nothing but divide: with the value before, its node."""
    for statement in statements_before(layout, at):
        inner = statement
        if isinstance(statement, ir.If) and len(statement.body) == 1 and not statement.orelse:
            inner = statement.body[0]
        if not any(name in bound_names(each) for each in walk(statement)):
            continue
        if isinstance(inner, ir.Augment) and is_name(inner.target, name):
            divides = inner.operator == "/" and inner.node in divisions
            return (statement, inner.target, inner.node) if divides else None
        if isinstance(inner, ir.Assign) and len(inner.targets) == 1 and is_name(inner.targets[0], name):
            value = inner.value
            divides = isinstance(value, ir.Binary) and value.operator == "/" and value.node in divisions
            if divides and isinstance(value, ir.Binary) and isinstance(value.left, ir.Name):
                return statement, value.left, value.node
        return None
    return None


def _check_order(window: Window, leaf: Leaf, first: int, before: ir.Statement) -> None:
    """What the count reads is not changed between the first term (at offset `first`) and where it is counted."""
    layout = window.layout
    read = {n.id for n in ast.walk(ast.parse(leaf.count_text, mode="eval")) if isinstance(n, ast.Name)}
    function = window.home_function
    for statement in walk(layout.scope(function)):
        if statement.node in layout.places and first < layout.range(statement.node)[0] < layout.range(before.node)[0]:
            place = layout.places[statement.node]
            if changed := read & set(changed_names(place.block[place.index])):
                raise Unplannable(f"`{sorted(changed)[0]}` changes between the loss and the place of its count")


def _names_of(window: Window) -> list[ir.Name]:
    function = window.home_function
    scope = window.layout.scope(function)
    return [n for n in walk(scope) if isinstance(n, ir.Name)]


__all__ = ["OWN", "leaf_of_all", "plan_terms", "read_whole", "shared_leaf"]
