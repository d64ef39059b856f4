"""A loss of several terms that divide by counts of their own: the window is counted once for each of them.

A gradient that is divided once has one divisor, so that these terms cannot be deferred: every term's sum is divided by
the total of its own count, known before the first forward of the window, and the sum of the quotients is propagated.
"""

from __future__ import annotations

from accumlint.apis.language import Count
from accumlint.reading import ir
from accumlint.reading.walk import dotted, walk
from accumlint.repair.ahead import write_ahead
from accumlint.repair.boundary import Window
from accumlint.repair.collect import collect
from accumlint.repair.counts import Leaf, family_of, find_constructor, summed_call
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.repair.terms import Whole, read_leaves, read_whole, term_sites
from accumlint.semantics.trace import Event


def plan_own_counts(window: Window, event: Event, draft: Draft, names: Names) -> Leaf:
    """All edits of the recipe; the leaf of the first term, with those of the others in `more`."""
    layout = window.layout
    whole = read_whole(window, event)
    leaves = _leaves(window, event, names)
    _check_uses(window, whole, leaves)
    collection = collect(window, draft, names)
    totals: dict[str, str] = {}
    for leaf in leaves:
        at = layout.statement(leaf.expression.node)
        if collection.loop not in layout.loops(at) or not isinstance(at, (ir.Assign, ir.Evaluate)):
            raise Unplannable("a term of the loss is not computed in the loop over its microbatches")
        ahead = write_ahead(layout, collection.loop, at, leaf.count_text, collection.names, collection.start)
        if ahead not in totals:
            totals[ahead] = names.free("num_targets" if leaf.exact else "total_weight")
        leaf.counted, leaf.factored = [ahead], True
        for start, end, content in leaf.elsewhere:
            draft.put(start, end, content)
        quotient = f"{leaf.sum_text} / {leaf.guarded(totals[ahead])}"
        start, end = layout.range(leaf.expression.node)
        loose = layout.text[end : end + 1] in (".", "[", "*") or layout.text[:start].rstrip(" \t").endswith(("/", "**"))
        draft.put(start, end, f"({quotient})" if loose else quotient)
    for link in whole.links:
        draft.delete(link)
    if whole.argument is not whole.core and not whole.links:
        draft.replace_whole(whole.argument.node, layout.source(whole.core.node))
    collection.write([(total, count) for count, total in totals.items()], [])
    leaves[0].more = leaves[1:]
    return leaves[0]


def _leaves(window: Window, event: Event, names: Names) -> list[Leaf]:
    """The leaf of each term, in the order of the text, each with a sum."""
    leaves = read_leaves(window, sorted(term_sites(event), key=lambda site: site.node), names)
    _sum_shared_criteria(window.layout, leaves)
    for leaf in leaves:
        if not leaf.sum_text:
            raise Unplannable(f"`{leaf.mean_text}` has no sum of its own: its criterion is used elsewhere")
        if leaf.count is Count.WEIGHT_SUM:
            raise Unplannable("one of them is a sum of weights")
    return leaves


def _sum_shared_criteria(layout: Layout, leaves: list[Leaf]) -> None:
    """A criterion whose only uses are terms of this loss is made to sum, for all of them at once."""
    calls = [(leaf, leaf.expression) for leaf in leaves if isinstance(leaf.expression, ir.Call)]
    for leaf, call in calls:
        name, family = dotted(call.function), family_of(leaf.site.call)
        if leaf.sum_text or name is None or family is None:
            continue
        constructor, _ = find_constructor(layout, call, family)
        sharing = [each for each, other in calls if dotted(other.function) == name]
        used = [n for n in walk(layout.module.body) if isinstance(n, (ir.Name, ir.Attribute)) and dotted(n) == name]
        if constructor is None or len(used) != len(sharing) + 1 or _is_elsewhere(layout, name):
            continue
        given = next((a.value for a in constructor.arguments if a.keyword == "reduction"), None)
        sharing[0].elsewhere.append((*layout.range(constructor.node), summed_call(layout, constructor, given)))
        for each in sharing:
            each.sum_text = each.mean_text


def _is_elsewhere(layout: Layout, name: str) -> bool:
    """Whether something of the same last name may be the same criterion: an attribute, a parameter."""
    last = name.rpartition(".")[2]
    return any(
        (isinstance(n, ir.Attribute) and n.name == last and dotted(n) != name)
        or (isinstance(n, (ir.Function, ir.Lambda)) and any(p.name == last for p in n.parameters))
        for n in walk(layout.module.body)
    )


def _check_uses(window: Window, whole: Whole, leaves: list[Leaf]) -> None:
    """The terms and the whole become shares of the window's loss: where they are logged, a mean is meant."""
    layout = window.layout
    own = {id(n) for link in whole.links for n in walk(link)} | {id(n) for n in walk(whole.argument)}
    read = _read_by(layout, window, whole, own)
    scope = layout.scope(window.home_function)
    names = {whole.name} if whole.name else set()
    for leaf in leaves:
        statement = layout.statement(leaf.expression.node)
        if isinstance(statement, ir.Assign):
            names |= {n.id for t in statement.targets for n in walk(t) if isinstance(n, ir.Name)}
    for node in walk(scope):
        if isinstance(node, ir.Name) and node.id in names and id(node) not in own | read:
            raise Unplannable(f"`{node.id}` is used for something else than its backward")


def _read_by(layout: Layout, window: Window, whole: Whole, own: set[int]) -> set[int]:
    """The names in the assignments that make the whole loss out of its terms."""
    found: set[int] = set()
    wanted = {n.id for n in walk(whole.core) if isinstance(n, ir.Name)} | ({whole.name} if whole.name else set())
    end = layout.range(window.home.node)[0]
    body = [n for n in walk(window.loop.body) if isinstance(n, ir.Assign) and layout.range(n.node)[0] < end]
    for statement in sorted(body, key=lambda s: layout.range(s.node)[0], reverse=True):
        given = {n.id for t in statement.targets for n in walk(t) if isinstance(n, ir.Name)}
        if given & wanted:
            found |= {id(n) for n in walk(statement)}
            wanted |= {n.id for n in walk(statement.value) if isinstance(n, ir.Name)}
    return found


__all__ = ["plan_own_counts"]
