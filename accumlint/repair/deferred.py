"""Deferred normalisation: sum the losses, count the targets, divide the gradient once, at the boundary."""

from __future__ import annotations

from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.boundary import Window, find_optimizer
from accumlint.repair.counts import Leaf, read_leaf
from accumlint.repair.helpers import lift_helper, read_masked
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.trace import BACKWARD, Event
from accumlint.semantics.values import Form, Site

RANKS = (
    "DistributedDataParallel", "FullyShardedDataParallel", "fully_shard", "accelerate", "lightning", "deepspeed",
    "all_reduce", "DataParallel", "horovod",
)  # fmt: skip


@dataclass(slots=True)
class Flow:
    """The way of a loss from its birth to its backward, in the backward's function.

    `root` is the expression of the birth (the loss call, or the call of the helper that holds it), `first` the
    statement that it is in, `links` the later statements that only divide or rename it, `divided` the divisions by
    the number of steps, `names` what it is called on the way, `factored` that other factors are on the way.
    """

    root: ir.Expression
    first: ir.Statement
    core: ir.Expression  # what of the first statement's expression remains without the divisions at its outside
    argument: ir.Expression  # what is propagated
    links: list[ir.Statement] = field(default_factory=list)
    divided: list[ir.Binary | ir.Augment] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    factored: bool = False
    masked: ir.Binary | None = None


def plan_weights(window: Window, draft: Draft, names: Names) -> Leaf:
    """All edits of the recipe."""
    layout = window.layout
    for mark in RANKS:
        if mark in layout.text:
            raise Unplannable(f"{mark} is in sight: the count would have to be summed over all ranks")
    if window.trace.reduced or window.trace.sums_ranks:
        raise Unplannable("the count would have to be summed over all ranks")
    event = next(e for e in window.events if e.kind == BACKWARD)
    if event.form is None:
        raise Unplannable("its loss is not understood")
    if any(e.kind == "scale" for e in window.events):
        raise Unplannable("its gradients are divided by hand")
    sites = {site.node: site for site, _ in event.form.terms}
    if len(sites) != 1:
        raise Unplannable("several loss terms with counts of their own")
    site = next(iter(sites.values()))
    flow = trace_flow(window, event, site)
    leaf = _leaf(window, flow, site, draft, names)
    counter = names.free("num_targets" if leaf.exact else "total_weight")
    _rewrite_loss(window, flow, leaf, counter, draft, names)
    _count_windows(window, leaf, counter, draft, names)
    return leaf


def _leaf(window: Window, flow: Flow, site: Site, draft: Draft, names: Names) -> Leaf:
    layout = window.layout
    if flow.masked is not None:
        return read_masked(layout, site, flow.masked)
    if flow.root.node == site.node:
        return read_leaf(layout, site, names)
    assert isinstance(flow.root, ir.Call)
    return lift_helper(layout, site, flow.root, draft, names)


def by_steps(window: Window, form: Form) -> set[int]:
    """The nodes that divide a loss by the number of steps."""
    sizes = {float(window.trace.steps)} if window.trace.steps else set()
    found = set()
    for division in form.divisions:
        if "framework" in division.divisor.text:
            raise Unplannable("a framework divides the loss by the number of steps")
        value = next((a for a in division.divisor.at if a is not None), None)
        if value is not None and value > 1 and (not sizes or float(value) in sizes or not division.divisor.is_constant):
            found.add(division.node)
    return found


def trace_flow(window: Window, event: Event, site: Site) -> Flow:
    """Follow the loss from its backward to its birth."""
    layout = window.layout
    assert event.form is not None
    divisions = by_steps(window, event.form)
    argument = _argument(window.backward)
    flow = Flow(argument, window.statement, argument, argument)
    at: ir.Statement = window.statement
    expression = argument
    for _ in range(12):
        expression = _strip(layout, flow, expression, divisions, site)
        if not isinstance(expression, ir.Name):
            break
        flow.names.append(expression.id)
        at, value = _assigned(window, flow, at, expression.id, divisions)
        flow.core = expression = value
        flow.first = at
    flow.root = expression
    return flow


def _argument(call: ir.Call) -> ir.Expression:
    if isinstance(call.function, ir.Attribute) and call.function.name == "backward":
        receiver = call.function.value
        if not call.arguments:
            return _unscaled(receiver)
        if len(call.arguments) == 1 and not call.arguments[0].star and isinstance(receiver, ir.Name | ir.Attribute):
            if call.arguments[0].keyword is None:
                return _unscaled(call.arguments[0].value)
    raise Unplannable("its backward call has arguments")


def _unscaled(expression: ir.Expression) -> ir.Expression:
    if (
        isinstance(expression, ir.Call)
        and isinstance(expression.function, ir.Attribute)
        and expression.function.name == "scale"
        and len(expression.arguments) == 1
    ):
        return expression.arguments[0].value
    return expression


def _strip(layout: Layout, flow: Flow, expression: ir.Expression, divisions: set[int], site: Site) -> ir.Expression:
    """The birth inside an expression of divisions and factors."""
    outside = True
    while expression.node != site.node:
        unscaled = _unscaled(expression)
        if unscaled is not expression:
            expression = unscaled
        elif isinstance(expression, ir.Binary) and expression.operator == "/":
            if expression.node in divisions:
                flow.divided.append(expression)
                expression = expression.left
                flow.core = expression if outside else flow.core
                continue
            if _holds(expression.left, site) and not _holds(expression.right, site) and site.reduction == "sum":
                flow.masked = expression
                return expression
            outside, flow.factored, expression = False, True, expression.left
        elif isinstance(expression, ir.Binary) and expression.operator == "*":
            if expression.node in divisions:
                raise Unplannable("the loss is multiplied by a fraction instead of divided")
            outside, flow.factored = False, True
            expression = expression.right if _holds(expression.right, site) else expression.left
        elif isinstance(expression, ir.Name):
            if flow.factored:
                raise Unplannable("the loss is multiplied by a factor on the way")
            return expression
        elif isinstance(expression, ir.Call):
            return expression
        else:
            raise Unplannable("the loss is not a plain expression")
    if site.reduction == "sum":
        raise Unplannable("what divides the summed loss is not plain")
    return expression


def _holds(expression: ir.Expression, site: Site) -> bool:
    return any(node.node == site.node for node in walk(expression))


def _assigned(
    window: Window, flow: Flow, at: ir.Statement, name: str, divisions: set[int]
) -> tuple[ir.Statement, ir.Expression]:
    """The statement before `at` that gives `name` its value; divisions in place on the way are noted."""
    layout = window.layout
    for statement in _before(layout, at, window.function):
        if isinstance(statement, ir.Augment) and _is(statement.target, name):
            if statement.node in divisions and statement.operator == "/":
                flow.divided.append(statement)
                flow.links.append(statement)
                continue
            raise Unplannable("something is added to the loss on the way")
        if isinstance(statement, ir.Assign) and len(statement.targets) == 1 and _is(statement.targets[0], name):
            if any(isinstance(n, ir.Name) and n.id in flow.names for n in walk(statement.value)):
                flow.links.append(statement)
            elif isinstance(_core(statement.value, divisions), ir.Name):
                flow.links.append(statement)
            return statement, statement.value
        if any(isinstance(n, ir.Name) and n.id == name and _stores(s, n) for s in walk(statement) for n in _targets(s)):
            raise Unplannable("the loss gets its value in a branch or together with others")
    raise Unplannable("the loss comes from outside this function")


def _core(expression: ir.Expression, divisions: set[int]) -> ir.Expression:
    while isinstance(expression, ir.Binary) and expression.node in divisions:
        expression = expression.left
    return _unscaled(expression)


def _targets(node: ir.Expression | ir.Statement) -> list[ir.Expression]:
    if isinstance(node, ir.Assign):
        return [n for t in node.targets for n in walk(t) if isinstance(n, ir.Name)]  # type: ignore[misc]
    if isinstance(node, ir.Augment):
        return [node.target]
    return []


def _stores(node: object, name: ir.Name) -> bool:
    return True


def _is(expression: ir.Expression, name: str) -> bool:
    return isinstance(expression, ir.Name) and expression.id == name


def _before(layout: Layout, at: ir.Statement, function: ir.Function | None):  # type: ignore[no-untyped-def]
    """The statements that ran before one, the nearest first, inside the same loop body; a `with` is entered."""
    for statement in (at, *layout.parents(at)):
        if isinstance(statement, ir.Function):
            return
        place = layout.places[statement.node]
        yield from _backwards(place.block[: place.index])
        if isinstance(place.parent, ir.For | ir.While):
            return


def _backwards(block: tuple[ir.Statement, ...]):  # type: ignore[no-untyped-def]
    for statement in reversed(block):
        if isinstance(statement, ir.With):
            yield from _backwards(statement.body)
        else:
            yield statement


def other_uses(window: Window, flow: Flow) -> list[ir.Name]:
    """Where the loss is used for something else than its backward."""
    own: set[int] = set()
    for statement in (flow.first, *flow.links):
        own |= {id(n) for n in walk(statement) if isinstance(n, ir.Name)}
    own |= {id(n) for n in walk(flow.argument)}
    scope = window.layout.module.body if window.function is None else window.function.body
    return [n for n in walk(scope) if isinstance(n, ir.Name) and n.id in flow.names and id(n) not in own]


def _rewrite_loss(window: Window, flow: Flow, leaf: Leaf, counter: str, draft: Draft, names: Names) -> None:
    layout = window.layout
    for start, end, content in leaf.elsewhere:
        draft.put(start, end, content)
    uses = other_uses(window, flow)
    rescaled = not leaf.sum_text
    counted = counter
    kept = bool(uses) and isinstance(flow.first, ir.Assign)
    if rescaled and not leaf.finite:
        raise Unplannable("the mean has no gradient where nothing counts, and its helper or criterion is used elsewhere")
    if kept or rescaled:
        counted = names.free("batch_targets" if leaf.exact else "batch_weight")
    if rescaled:
        leaf.sum_text = f"{leaf.mean_text} * {counted}"
    root_start, root_end = layout.range(flow.root.node)
    lines = list(leaf.setup)
    count_lines = [f"{counted} = {leaf.count_text}", f"{counter} += {counted}"] if counted != counter else []
    count_lines = count_lines or [f"{counter} += {leaf.count_text}"]
    if kept:
        assert isinstance(flow.first, ir.Assign)
        start, end = _span(layout, flow.core)
        summed = names.free("loss_sum")
        text = layout.text[start:root_start] + leaf.sum_text + layout.text[root_end:end]
        _one_way(layout, flow)
        draft.before(flow.first, *lines, *count_lines, f"{summed} = {_flush_left(layout, flow.first, text)}")
        draft.put(start, end, f"{summed}.detach() / {leaf.guarded(counted)}")
        draft.replace_whole(flow.argument.node, summed)
        last = max(layout.range(n.node)[0] for n in uses)
        for link in flow.links:
            if last < layout.range(link.node)[0] and _same_loop(layout, window, uses):
                draft.delete(link)
        return
    draft.before(flow.first, *lines, *count_lines)
    inner = leaf.sum_text if not rescaled or flow.root is flow.core else f"({leaf.sum_text})"
    for division in flow.divided:
        if isinstance(division, ir.Augment):
            draft.delete(division)
            continue
        statement = layout.statement(division.node)
        left = division.left
        if isinstance(statement, ir.Assign) and _is(left, getattr(statement.targets[0], "id", "")):
            draft.delete(statement)
        else:
            _cut_division(layout, draft, division)
    if inner != layout.text[root_start:root_end]:
        draft.put(root_start, root_end, inner)


def _cut_division(layout: Layout, draft: Draft, division: ir.Binary) -> None:
    """Cut `/ K`; a plain name or call loses the parentheses around the quotient as well, at the start of a line."""
    keep_start, keep_end = layout.range(division.left.node)
    start, end = layout.range(division.node)
    text = layout.text
    plain = isinstance(division.left, ir.Name | ir.Call | ir.Attribute)
    alone = text[start - 1] == "(" and text[end : end + 1] == ")" and text[: start - 1].rstrip(" \t").endswith(("\n", "\r"))
    if plain and alone and not text[keep_end:end].lstrip().startswith(")"):
        start, end = start - 1, end + 1
    draft.put(start, keep_start, "")
    draft.put(keep_end, end, "")


def _same_loop(layout: Layout, window: Window, uses: list[ir.Name]) -> bool:
    return all(window.loop in layout.loops(layout.statement(n.node)) for n in uses)


def _one_way(layout: Layout, flow: Flow) -> None:
    for link in flow.links:
        if not isinstance(link, ir.Augment | ir.Assign):
            raise Unplannable("the loss takes an unusual way to its backward")
        if isinstance(link, ir.Assign) and _unscaled(link.value) is not link.value:
            raise Unplannable("the loss is scaled on its way to the backward")


def _flush_left(layout: Layout, statement: ir.Statement, text: str) -> str:
    if "\n" in text and not text.rstrip().endswith(")"):
        raise Unplannable("the loss spans several lines in an unusual way")
    return text



def _span(layout: Layout, node: ir.Expression) -> tuple[int, int]:
    return layout.range(node.node)


def _count_windows(window: Window, leaf: Leaf, counter: str, draft: Draft, names: Names) -> None:
    """Initialise, divide, reset."""
    layout = window.layout
    optimizer = find_optimizer(window)
    loop = window.loop
    divisor = leaf.guarded(counter).strip("()") if not leaf.exact else leaf.guarded(counter)
    lines = _division_lines(layout, optimizer, divisor, names)
    reset = f"{counter} = {leaf.zero}"
    inside = False
    for ending in window.endings:
        draft.before(ending.first(layout), *lines)
        if loop in layout.loops(ending.steps[0]):
            inside = True
            draft.after(ending.last(layout), reset)
    if not inside:
        draft.before(loop, reset)
        return
    outer = loop
    for each in window.loops[1:]:
        if any(each in layout.loops(s) for e in window.endings for s in e.steps):
            outer = each if not _cleared_before(window, outer) else outer
    draft.before(outer, reset)
    for clear in window.clears:
        if loop in layout.loops(clear):
            if layout.range(clear.node)[0] < layout.range(window.statement.node)[0]:
                draft.after(clear, reset)


def _cleared_before(window: Window, loop: ir.For | ir.While) -> bool:
    """Whether gradients are cleared right where the loop starts, so that the count starts there as well."""
    layout = window.layout
    place = layout.places[loop.node]
    return any(
        (index := layout.in_block(clear, place.block)) is not None and index < place.index for clear in window.clears
    )


def _division_lines(layout: Layout, optimizer: str, divisor: str, names: Names) -> list[str]:
    unit = "\t" if "\n\t" in layout.text else "    "
    quote = "'" if layout.text.count("'") > layout.text.count('"') else '"'
    group, param = names.free("param_group"), names.free("param")
    return [
        f"for {group} in {optimizer}.param_groups:",
        f"{unit}for {param} in {group}[{quote}params{quote}]:",
        f"{unit * 2}if {param}.grad is not None:",
        f"{unit * 3}{param}.grad.div_({divisor})",
    ]
