"""The leaf of a loss that is computed out of sight: its count is that of a loss contract, at the call it speaks of."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from accumlint.reading import ir
from accumlint.reading.contracts import ContractError, Counted, LossContract, names_of, parse_count, written
from accumlint.reading.walk import walk
from accumlint.repair.boundary import Window
from accumlint.repair.counts import Leaf, is_shaping
from accumlint.repair.flow import Flow
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.values import Hidden, Site

CHANGING = frozenset({"pop", "update", "clear", "popitem", "setdefault", "fill_", "masked_fill_", "copy_", "zero_"})
EMPTY = "a microbatch without any target: the loss of `{}` must leave no gradient there, and no nan"


def read_hidden(layout: Layout, site: Site, root: ir.Expression) -> Leaf:
    """The leaf of `root`, the expression that stands for the loss; the mean is kept and multiplied by its count."""
    hidden = site.hidden
    assert hidden is not None
    contract = hidden.contract
    if contract.reduction != "mean":
        raise Unplannable(f"the loss of `{contract.pattern}` is declared to be a sum: what divides it is not plain")
    if contract.counted is Counted.CONSTANT:
        raise Unplannable(f"`{contract.pattern}` is declared to count the same in every microbatch")
    count = count_at_call(layout, hidden)
    _check_unchanged(layout, hidden, root, count)
    exact = contract.counted is not Counted.WEIGHTS
    text = layout.source(root.node)
    wrapped = f"int({count})" if contract.counted is Counted.TARGETS else f"float({count})"
    assert site.count is not None
    return Leaf(
        site, root, text, "", count if contract.counted in (Counted.ROWS, Counted.ELEMENTS) else wrapped, site.count,
        exact=exact, declared=contract.text,
    )  # fmt: skip


def notes_of(leaf: Leaf) -> tuple[str, ...]:
    """What a reader has to know beside a declared count."""
    hidden = leaf.site.hidden
    if hidden is None or hidden.contract.shipped or hidden.contract.counted in (Counted.ROWS, Counted.ELEMENTS):
        return ()
    return (EMPTY.format(hidden.contract.pattern),)


def count_at_call(layout: Layout, hidden: Hidden) -> str:
    """The count of a contract with what the call passes in the place of its parameters."""
    call = layout.nodes.get(hidden.call)
    if not isinstance(call, ir.Call):
        raise Unplannable(f"the call of `{hidden.contract.pattern}` is out of reach of the rewriter")
    wanted = names_of(parse_count(hidden.contract.count))
    passed = {name: _argument(layout, call, hidden.contract, name) for name in wanted}
    try:
        return written(hidden.contract.count, passed)
    except (ContractError, SyntaxError, KeyError):
        raise Unplannable(f"the count of `{hidden.contract.pattern}` cannot be written at its call") from None


def _argument(layout: Layout, call: ir.Call, contract: LossContract, name: str) -> str:
    """The text of what is passed for a parameter: by keyword, by position, or in the only `**` mapping."""
    place = contract.parameters.index(name) if name in contract.parameters else -1
    mappings: list[ir.Expression] = []
    for index, argument in enumerate(call.arguments):
        if argument.keyword == name or (argument.keyword is None and not argument.star and index == place):
            return _repeatable(layout, argument.value, name)
        if argument.star == "*" and index <= place:
            raise Unplannable("the arguments of the loss are passed with a star")
        if argument.star == "**":
            mappings.append(argument.value)
    if len(mappings) != 1:
        raise Unplannable(f"`{name}` of `{contract.pattern}` is not among the named arguments of its call")
    mapping = mappings[0]
    if isinstance(mapping, ir.DictDisplay):
        for key, value in mapping.items:
            if isinstance(key, ir.Constant) and key.value == name:
                return _repeatable(layout, value, name)
    if not isinstance(mapping, (ir.Name, ir.Attribute, ir.Subscript)):
        raise Unplannable(f"`{name}` of `{contract.pattern}` is in a mapping that is computed in its call")
    quote = "'" if layout.text.count("'") > layout.text.count('"') else '"'
    return f"{_repeatable(layout, mapping, name)}[{quote}{name}{quote}]"


def _repeatable(layout: Layout, value: ir.Expression, name: str) -> str:
    """The text of an argument that may be read a second time."""
    if any(isinstance(n, (ir.Walrus, ir.Await)) or (isinstance(n, ir.Call) and not is_shaping(n)) for n in walk(value)):
        raise Unplannable(f"`{name}` of the loss is computed by a call")
    return layout.flat(value)


def _check_unchanged(layout: Layout, hidden: Hidden, root: ir.Expression, count: str) -> None:
    """Refuse where what is counted may have changed between the call and the loss, beside which it is counted."""
    read = {node.id for node in ast.walk(ast.parse(count, mode="eval")) if isinstance(node, ast.Name)}
    called, first = layout.statement(hidden.call), layout.statement(root.node)
    if called is first:
        return
    if layout.function(called) is not layout.function(first) or layout.loops(called) != layout.loops(first):
        raise Unplannable("the model is called in another place than its loss is taken")
    begin, end = layout.range(hidden.call)[1], layout.range(first.node)[0]
    for statement in layout.places:
        place = layout.places[statement]
        each = place.block[place.index]
        if begin <= layout.range(statement)[0] < end and (changed := read & set(changed_names(each))):
            raise Unplannable(f"`{sorted(changed)[0]}` changes between the call of the model and its loss")


def changed_names(statement: ir.Statement) -> Iterator[str]:
    """Names that a statement binds, or whose object it changes."""
    targets: list[ir.Expression] = []
    if isinstance(statement, ir.Assign):
        targets += statement.targets
    elif isinstance(statement, (ir.Augment, ir.For)):
        targets.append(statement.target)
    elif isinstance(statement, ir.Delete):
        targets += statement.targets
    for target in targets:
        for node in walk(target):
            if isinstance(node, ir.Name):
                yield node.id
    for node in walk(statement):
        called = node.function if isinstance(node, ir.Call) else None
        if isinstance(called, ir.Attribute) and (called.name in CHANGING or called.name.endswith("_")):
            yield from (n.id for n in walk(called.value) if isinstance(n, ir.Name))


def rewrite_beside(
    window: Window,
    flow: Flow,
    leaf: Leaf,
    counter: str,
    counted: str,
    draft: Draft,
    names: Names,
    divisor: str = "",
) -> None:
    """The loss stays as it is, for whatever else it is used for; its sum takes its place in the backward."""
    summed = names.free("loss_sum")
    first = min((flow.first, *flow.links), key=lambda each: window.layout.range(each.node)[0])
    grown = [] if divisor else [f"{counter} += {counted}"]
    draft.before(first, f"{counted} = {leaf.count_text}", *grown, f"{summed} = {leaf.mean_text} * {counted}")
    quotient = f"{summed} / {divisor}"
    if flow.argument is getattr(window.backward.function, "value", None):
        quotient = f"({quotient})"
    draft.replace_whole(flow.argument.node, quotient if divisor else summed)


__all__ = ["changed_names", "count_at_call", "notes_of", "read_hidden", "rewrite_beside"]
