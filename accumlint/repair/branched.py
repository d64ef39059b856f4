"""A loss that gets its value in a branch: every branch's loss has the same count, and the whole is multiplied by it."""

from __future__ import annotations

from accumlint.contract.judge import judge_regions
from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.boundary import Window
from accumlint.repair.counts import Leaf
from accumlint.repair.flow import is_name
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Unplannable
from accumlint.repair.terms import Whole, leaf_of_all, read_leaves, read_whole, term_sites
from accumlint.semantics.trace import BACKWARD, Event
from accumlint.semantics.values import Site


def branched_leaf(window: Window, event: Event, names: Names, reason: str) -> Leaf:
    """The leaf of a loss that several branches compute, each of which was followed; `reason` is why it is none of one.

    Each branch's loss is to be held against the count on its own.
    """
    whole = read_whole(window, event)
    if not whole.name or not window.loops:
        raise Unplannable(reason)
    sites = _sites_of_every_path(window, event)
    _check_bindings(window, whole, sites, reason)
    leaves = read_leaves(window, sites, names)
    if len({leaf.count_text for leaf in leaves}) > 1:
        raise Unplannable("the branches of its loss have counts of their own")
    shared = leaf_of_all(leaves)
    shared.factored = False
    for leaf in leaves if len(leaves) > 1 else ():
        leaf.sum_text, leaf.elsewhere = "", []
    shared.more = leaves if len(leaves) > 1 else []
    return shared


def _sites_of_every_path(window: Window, event: Event) -> list[Site]:
    """Where what this backward propagates is computed, on the default path and on each flipped one, in text order."""
    sites = {site.node: site for site in term_sites(event)}
    for judged in judge_regions(window.layout.module, thorough=True):
        result = judged.result
        if all(each.node != event.node for trace in result.default for each in trace.events if each.kind == BACKWARD):
            continue
        for trace in (*result.default, *(trace for traces in result.flipped for trace in traces)):
            for other in trace.events:
                if other.kind == BACKWARD and other.node == event.node:
                    sites |= {site.node: site for site in term_sites(other)}
                elif other.kind == BACKWARD:
                    raise Unplannable("each branch of its loss has a backward of its own")
    return [sites[node] for node in sorted(sites, key=window.layout.module.syntax.span)]


def _check_bindings(window: Window, whole: Whole, sites: list[Site], reason: str) -> None:
    """Refuse a name that gets anything but the losses that were followed, and its divisions by the number of steps."""
    nodes = {site.node for site in sites}
    linked = {id(node) for link in whole.links for node in walk(link)}
    for node in walk(window.loop.body):
        if id(node) in linked:
            continue
        if isinstance(node, ir.Assign):
            bound = [
                n for target in node.targets for n in walk(target) if isinstance(n, ir.Name) and n.id == whole.name
            ]
            if bound and (len(node.targets) != 1 or not is_name(node.targets[0], whole.name)):
                raise Unplannable(reason)
            if bound and node.value.node not in nodes:
                raise Unplannable(f"`{whole.name}` gets a value in a branch that was not followed, or no plain loss")
        elif isinstance(node, (ir.Augment, ir.For, ir.Walrus)) and any(
            isinstance(each, ir.Name) and each.id == whole.name for each in walk(node.target)
        ):
            raise Unplannable(reason)


__all__ = ["branched_leaf"]
