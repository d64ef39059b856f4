"""Deferred normalisation: sum the losses, count the targets, divide the gradient once, at the boundary."""

from __future__ import annotations

from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.averaging import Averaging, per_gradient, place_gated
from accumlint.repair.boundary import Window, events_of, find_optimizer, outside_parameters
from accumlint.repair.branched import branched_leaf
from accumlint.repair.carry import same_class
from accumlint.repair.counts import Leaf, read_leaf
from accumlint.repair.distributed import find_averaging
from accumlint.repair.elementwise import averaged, read_mean
from accumlint.repair.flow import Flow, InBranch, by_steps, is_name, other_uses, trace_flow, unscaled
from accumlint.repair.followed import lift_followed
from accumlint.repair.helpers import count_at_caller, lift_helper, read_masked, read_part
from accumlint.repair.hidden import read_hidden, rewrite_beside
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.repair.terms import OWN, plan_terms, shared_leaf
from accumlint.semantics.trace import BACKWARD, SCALE
from accumlint.semantics.values import Site

PLAIN = (ir.Name, ir.Call, ir.Attribute)


def plan_weights(window: Window, draft: Draft, names: Names) -> Leaf:
    """All edits of the recipe."""
    event = next(e for e in window.events if e.kind == BACKWARD)
    averaging = find_averaging(window, event)
    several = event.form is not None and len({site.node for site, _ in event.form.terms}) > 1
    flow: Flow | None = None
    if several:
        leaf = shared_leaf(window, event, names)
    else:
        try:
            flow, leaf = read_loss(window, draft, names)
        except InBranch as problem:
            leaf = branched_leaf(window, event, names, str(problem))
    counter = names.free("num_targets" if leaf.exact else "total_weight")
    kept = keeps_in_self(window)
    counter = f"self.{counter}" if kept else counter
    apart = bool(window.chain) and not kept
    at_host = count_at_host(window, leaf) if apart else ""
    if apart:
        draft.before(window.statement, f"{counter} += {at_host}")
    if flow is None:
        counted = plan_terms(window, event, leaf, counter, draft, names, apart=apart)
    else:
        counted = rewrite_loss(window, flow, leaf, counter, draft, names, apart=apart)
    if apart:
        leaf.counted = [at_host, leaf.count_text] if counted else [at_host]
    _count_windows(window, leaf, counter, draft, names, averaging)
    return leaf


def read_loss(window: Window, draft: Draft, names: Names) -> tuple[Flow, Leaf]:
    """The way of the loop's loss and what it divides by."""
    event = next(e for e in window.events if e.kind == BACKWARD)
    if event.form is None:
        raise Unplannable("its loss is not understood")
    sites = {site.node: site for site, _ in event.form.terms}
    if len(sites) != 1:
        raise Unplannable(OWN)
    site = next(iter(sites.values()))
    flow = trace_flow(window, event, site)
    leaf = _leaf(window, flow, site, frozenset(by_steps(window, event.form)), draft, names)
    leaf.factored = flow.factored
    return flow, leaf


def _leaf(window: Window, flow: Flow, site: Site, divisions: frozenset[int], draft: Draft, names: Names) -> Leaf:
    layout = window.layout
    if site.hidden is not None and (flow.root.node == site.node or flow.born is not None):
        return read_hidden(layout, site, flow.root)
    if flow.masked is not None:
        return read_masked(layout, site, flow.masked)
    if flow.maker is not None:
        return read_part(layout, site, flow.root, flow.maker, flow.part, names)
    if flow.root.node == site.node:
        values = averaged(layout, site)
        return read_leaf(layout, site, names) if values is None else read_mean(layout, site, values, names)
    if not isinstance(flow.root, ir.Call):
        raise Unplannable("the loss is not a plain expression")
    try:
        return lift_helper(layout, site, flow.root, draft, names, divisions)
    except Unplannable as problem:
        passed = frozenset(division.node for division in flow.divided)
        leaf = _followed(layout, site, flow.root, divisions - passed)
        if leaf is None:
            raise problem from None
        return leaf


def _followed(layout: Layout, site: Site, call: ir.Call, divisions: frozenset[int]) -> Leaf | None:
    """The leaf of a helper that is no plain return, if it can be read."""
    try:
        return lift_followed(layout, site, call, divisions)
    except Unplannable:
        return None


def rewrite_loss(
    window: Window,
    flow: Flow,
    leaf: Leaf,
    counter: str,
    draft: Draft,
    names: Names,
    *,
    divisor: str = "",
    apart: bool = False,
) -> bool:
    """Make a sum of the loss; what is logged keeps its meaning. True if the targets of a microbatch are counted here.

    `counter` grows by each microbatch's count; with a `divisor` it is known before, and each sum is divided by that;
    with `apart` it grows in another function.
    """
    layout = window.layout
    for start, end, content in leaf.elsewhere:
        draft.put(start, end, content)
    uses = other_uses(window, flow)
    rescaled = not leaf.sum_text
    counted = "" if divisor or apart else counter
    kept = bool(uses) and isinstance(flow.first, ir.Assign)
    if rescaled and not leaf.finite:
        raise Unplannable(
            "the mean has no gradient where nothing counts, and its helper or criterion is used elsewhere"
        )
    if kept or rescaled:
        counted = names.free("batch_targets" if leaf.exact else "batch_weight")
    if rescaled:
        leaf.sum_text = f"{leaf.mean_text} * {counted}"
    if flow.maker is not None:  # it is a part of what a helper returned: what is logged before stays as it is
        uses = [n for n in uses if layout.range(n.node)[0] > layout.range(flow.first.node)[0]]
        kept = False
    if uses and rescaled and (leaf.declared or flow.maker is not None):
        if apart:
            raise Unplannable("the loss is computed out of sight and logged as well")
        rewrite_beside(window, flow, leaf, counter, counted, draft, names, divisor)
        return True
    root_start, root_end = layout.range(flow.root.node)
    lines = list(leaf.setup)
    if counted and counted != counter:
        lines.append(f"{counted} = {leaf.count_text}")
    if not divisor and not apart:
        lines.append(f"{counter} += {counted if counted != counter else leaf.count_text}")
    if kept:
        assert isinstance(flow.first, ir.Assign)
        start, end = _span(layout, flow.core)
        summed = names.free("loss_sum")
        text = layout.text[start:root_start] + leaf.sum_text + layout.text[root_end:end]
        _one_way(layout, flow)
        draft.before(flow.first, *lines, f"{summed} = {_flush_left(layout, flow.first, text)}")
        draft.put(start, end, f"{summed}.detach() / {leaf.guarded(counted)}")
        quotient = f"{summed} / {divisor}"
        if flow.argument is getattr(window.backward.function, "value", None):
            quotient = f"({quotient})"
        draft.replace_whole(flow.argument.node, quotient if divisor else summed)
        last = max(layout.range(n.node)[0] for n in uses)
        for link in flow.links:
            if last < layout.range(link.node)[0] and _same_loop(layout, window, uses):
                draft.delete(link)
        return True
    draft.before(flow.first, *lines)
    bare = flow.root is flow.core and not _is_receiver(window, flow)
    inner = leaf.sum_text if not rescaled or bare else f"({leaf.sum_text})"
    divisions = list(flow.divided)
    if divisor:
        _divide(window, flow, divisions.pop(0) if divisions else None, divisor, draft)
    for division in divisions:
        if isinstance(division, ir.Augment):
            draft.delete(division)
            continue
        statement = layout.statement(division.node)
        left = division.left
        renames = isinstance(statement, ir.Assign) and is_name(left, getattr(statement.targets[0], "id", ""))
        if renames and statement is not flow.first:
            draft.delete(statement)
        else:
            _cut_division(layout, draft, division)
    if inner != layout.text[root_start:root_end]:
        draft.put(root_start, root_end, inner)
    return bool(counted)


def _divide(window: Window, flow: Flow, division: ir.Binary | ir.Augment | None, divisor: str, draft: Draft) -> None:
    """Divide the loss by `divisor`, in the place of a division by the number of steps or where it is propagated."""
    layout = window.layout
    if division is not None:
        written = layout.nodes[division.node]
        multiplied = isinstance(written, ir.Binary) and written.operator == "*"
        if multiplied or (isinstance(written, ir.Call) and getattr(written.function, "name", "") == "mul"):
            raise Unplannable("the loss is multiplied by a fraction instead of divided")
        divided_by = division.value if isinstance(division, ir.Augment) else division.right
        draft.put(*layout.range(divided_by.node), divisor)
        return
    start, end = layout.range(flow.argument.node)
    loose = isinstance(flow.argument, (ir.Conditional, ir.Boolean)) or (
        isinstance(flow.argument, ir.Binary) and flow.argument.operator not in "*/"
    )
    received = flow.argument is getattr(window.backward.function, "value", None)
    if received and not isinstance(flow.argument, (ir.Name, ir.Call, ir.Attribute, ir.Subscript)):
        received = False  # it stands in parentheses already
    before, after = ("(" if received else "") + ("(" if loose else ""), ")" if loose else ""
    draft.put(start, start, before, always=True) if before else None
    draft.put(end, end, f"{after} / {divisor}" + (")" if received else ""), always=True)


def _is_receiver(window: Window, flow: Flow) -> bool:
    """Whether `.backward()` follows the root itself once the divisions are cut, with their parentheses."""
    function = window.backward.function
    if flow.first is not window.home or not isinstance(function, ir.Attribute):
        return False
    if flow.root not in walk(function.value):
        return False
    cut = [division for division in flow.divided if isinstance(division, ir.Binary)]
    return not cut or any(isinstance(division.left, PLAIN) for division in cut) or function.value is flow.root


def _cut_division(layout: Layout, draft: Draft, division: ir.Binary) -> None:
    """Cut `/ K`; a plain name or call loses the parentheses around the quotient as well, at the start of a line."""
    keep_start, keep_end = layout.range(division.left.node)
    start, end = layout.range(division.node)
    text = layout.text
    plain = isinstance(division.left, PLAIN)
    alone = (
        text[start - 1] == "(" and text[end : end + 1] == ")" and text[: start - 1].rstrip(" \t").endswith(("\n", "\r"))
    )
    if plain and alone and not text[keep_end:end].lstrip().startswith(")"):
        start, end = start - 1, end + 1
    draft.put(start, keep_start, "")
    draft.put(keep_end, end, "")


def _same_loop(layout: Layout, window: Window, uses: list[ir.Name]) -> bool:
    return not window.loops or all(window.loop in layout.loops(layout.statement(n.node)) for n in uses)


def _one_way(layout: Layout, flow: Flow) -> None:
    for link in flow.links:
        if not isinstance(link, (ir.Augment, ir.Assign)):
            raise Unplannable("the loss takes an unusual way to its backward")
        if isinstance(link, ir.Assign) and unscaled(link.value) is not link.value:
            raise Unplannable("the loss is scaled on its way to the backward")


def _flush_left(layout: Layout, statement: ir.Statement, text: str) -> str:
    if "\n" in text and not text.rstrip().endswith(")"):
        raise Unplannable("the loss spans several lines in an unusual way")
    return text


def _span(layout: Layout, node: ir.Expression) -> tuple[int, int]:
    return layout.range(node.node)


def _count_windows(
    window: Window, leaf: Leaf, counter: str, draft: Draft, names: Names, averaging: Averaging | None
) -> None:
    """Initialise, divide, reset."""
    layout = window.layout
    divisor = leaf.guarded(counter).strip("()") if not leaf.exact else leaf.guarded(counter)
    reset = f"{counter} = {leaf.zero}"
    inside = False
    divisors = _gradient_divisors(window)
    lines = [] if divisors else _division_lines(window, leaf, counter, divisor, names, averaging)
    if averaging is not None and divisors:
        raise Unplannable("its gradients are divided by hand, on several ranks")
    gate = "" if averaging is None else averaging.gate
    for written in divisors:
        draft.put(*layout.range(written.node), divisor if divisor.startswith("max(") else f"({divisor})")
    for ending in window.endings:
        if averaging is not None and gate:
            inside = True
            place_gated(layout, ending, averaging, [*lines, reset], draft)
            continue
        if not divisors:
            draft.before(ending.first(layout), *lines)
        if window.repeats(ending.steps[0]):
            inside = True
            draft.after(ending.last(layout), reset)
    if averaging is not None:
        averaging.prepare(layout, draft)
    if not window.loops:
        draft.after(_constructor_end(window), reset)
        return
    loop = window.loop
    if not inside:
        draft.before(loop, *([averaging.guard] if averaging is not None and averaging.guard else []), reset)
        return
    outer = loop
    for each in window.loops[1:]:
        if any(each in layout.loops(s) for e in window.endings for s in e.steps):
            outer = each if not _cleared_before(window, outer) else outer
    for ending in window.endings:  # a flush behind the inner loop: the count of the next pass starts anew
        if not window.repeats(ending.steps[0]) and outer in layout.loops(ending.steps[0]):
            draft.after(ending.last(layout), reset)
    draft.before(outer, *([averaging.guard] if averaging is not None and averaging.guard else []), reset)
    for clear in window.clears:
        if loop in layout.loops(clear) and layout.range(clear.node)[0] < layout.range(window.statement.node)[0]:
            draft.after(outside_parameters(window, clear), reset)


def keeps_in_self(window: Window) -> bool:
    """Whether the count is an attribute: of methods of one class, or of one that is called for each microbatch."""
    layout = window.layout
    if not window.chain and window.loops:
        return False
    if window.chain:
        return same_class(layout, window.home_function, window.function)
    if not same_class(layout, window.function, window.function):
        raise Unplannable("the loop that drives the backward is not in the same function")
    return True


def count_at_host(window: Window, leaf: Leaf) -> str:
    """The count of a loss in the names of the host, before its call of what computes the loss."""
    text = leaf.count_text
    for call in window.chain:
        text = count_at_caller(window.layout, call, text)
    return text


def _constructor_end(window: Window) -> ir.Statement:
    """The last statement of `__init__`, behind which a count starts that lives longer than a call."""
    layout = window.layout
    owner = layout.places[window.function.node].parent if window.function is not None else None
    body = owner.body if isinstance(owner, ir.Class) else ()
    made = [s for s in body if isinstance(s, ir.Function) and s.name == "__init__"]
    if len(made) != 1 or any(isinstance(n, ir.Return) for n in walk(made[0].body)):
        raise Unplannable("its class has no plain constructor, in which a count could start")
    return made[0].body[-1]


def _gradient_divisors(window: Window) -> list[ir.Expression]:
    """What the gradients are divided by in the loop's own function: the count takes its place."""
    layout = window.layout
    found: list[ir.Expression] = []
    for event in events_of(window.events, SCALE):
        statement = layout.statement(event.node)
        if layout.function(statement) is not window.function:
            raise Unplannable("its gradients are divided by hand, in a helper")
        if isinstance(statement, ir.Augment) and statement.operator == "/":
            found.append(statement.value)
            continue
        call = statement.value if isinstance(statement, ir.Evaluate) else None
        plain = isinstance(call, ir.Call) and isinstance(call.function, ir.Attribute) and len(call.arguments) == 1
        method = getattr(call.function, "name", "") if isinstance(call, ir.Call) and plain else ""
        by = call.arguments[0].value if isinstance(call, ir.Call) and plain else None
        if method == "mul_" and isinstance(by, ir.Binary) and by.operator == "/" and _is_one(by.left):
            found.append(by.right)
        elif method == "div_" and by is not None:
            found.append(by)
        elif isinstance(call, ir.Call) and len(fractions := _fractions(call)) == 1:  # `scale_grads(model, 1 / k)`
            found.append(fractions[0].right)
        else:
            raise Unplannable("its gradients are divided by hand, in an unusual way")
    if any(not isinstance(each, (ir.Name, ir.Attribute, ir.Constant)) for each in found):
        raise Unplannable("its gradients are divided by hand, by no plain number")
    return found


def _fractions(call: ir.Call) -> list[ir.Binary]:
    """The arguments of a call that are one divided by something."""
    values = [argument.value for argument in call.arguments if not argument.star]
    return [v for v in values if isinstance(v, ir.Binary) and v.operator == "/" and _is_one(v.left)]


def _is_one(node: ir.Expression) -> bool:
    return isinstance(node, ir.Constant) and node.value == 1


def _cleared_before(window: Window, loop: ir.For | ir.While) -> bool:
    """Whether gradients are cleared right where the loop starts, so that the count starts there as well."""
    layout = window.layout
    place = layout.places[loop.node]
    return any(
        (index := layout.in_block(clear, place.block)) is not None and index < place.index for clear in window.clears
    )


def _division_lines(
    window: Window, leaf: Leaf, counter: str, divisor: str, names: Names, averaging: Averaging | None
) -> list[str]:
    layout, optimizer = window.layout, find_optimizer(window)
    if averaging is not None:
        return averaging.lines(leaf, counter, optimizer, layout, names)
    return per_gradient(optimizer, f"div_({divisor})", layout, names)
