"""Let the last partial window of a loop step as well."""

from __future__ import annotations

import re
from collections.abc import Iterator

from accumlint.contract.verdict import Clause, Violation
from accumlint.reading import ir
from accumlint.reading.walk import called_name, walk
from accumlint.repair.ahead import bound_names
from accumlint.repair.boundary import Window, events_of
from accumlint.repair.driven import is_driven, step_at_the_end
from accumlint.repair.motion import named_test
from accumlint.repair.rewrite import Block, Draft, Layout, Unplannable, blocks, walk_own
from accumlint.semantics.trace import SYNC


def flush(window: Window, wanted: list[Violation], draft: Draft) -> None:
    """Let the last partial window step as well: in the test, or once more after the loop."""
    layout = window.layout
    violation = next(v for v in wanted if v.clause is Clause.LEFTOVER)
    boundary = layout.statement(violation.node)
    if not isinstance(boundary, ir.If):
        raise Unplannable("its boundary is no plain `if`")
    if is_driven(window):
        step_at_the_end(window, boundary, draft)
        return
    loop = window.loop
    if loop not in layout.loops(boundary):
        raise Unplannable("it is not a plain loop over batches")
    skips = any(isinstance(s, ir.Continue) for s in boundary.body)
    named = named_test(layout, boundary) if isinstance(loop, ir.For) and not skips else None
    if named is not None and isinstance(loop, ir.For) and _in_its_name(layout, boundary, named, loop, draft):
        return
    last = _last_test(layout, loop, negated=skips) if isinstance(loop, ir.For) else ""
    if last and isinstance(loop, ir.For):
        if not skips:
            _switch_too(window, boundary, loop, draft)
        _, end = layout.range(boundary.test.node)
        start, _ = layout.range(boundary.test.node)
        while layout.text[start - 1] == "(" and layout.text[end : end + 1] == ")":
            start, end = start - 1, end + 1
        if isinstance(boundary.test, (ir.Boolean, ir.Conditional)) and layout.text[start] != "(":
            draft.put(start, start, "(", always=True)
            draft.put(end, end, f") {'and' if skips else 'or'} {last}", always=True)
        else:
            draft.put(end, end, f" {'and' if skips else 'or'} {last}", always=True)
        return
    if boundary.orelse:
        raise Unplannable("its boundary has an `else`, and its loop does not say which batch is the last")
    _flush_after(window, boundary, loop, draft, skips=skips)


def _in_its_name(layout: Layout, boundary: ir.If, named: ir.Assign, loop: ir.For, draft: Draft) -> bool:
    """The name that the boundary tests takes in the end of the pass: what else it decides (whether ranks synchronise)
    stays in step. False where it cannot."""
    negated = isinstance(boundary.test, ir.Unary)
    last = _last_test(layout, loop, negated=negated)
    if not last or isinstance(named.value, (ir.Boolean, ir.Conditional)):
        return False
    _, end = layout.range(named.value.node)
    draft.put(end, end, f" {'and' if negated else 'or'} {last}", always=True)
    return True


def _switch_too(window: Window, boundary: ir.If, loop: ir.For, draft: Draft) -> None:
    """Where ranks are synchronised by the boundary's own test, written anew, they are on the last microbatch too."""
    layout, test = window.layout, boundary.test
    switches = {layout.statement(e.node).node: layout.statement(e.node) for e in events_of(window.events, SYNC)}
    if not isinstance(test, ir.Compare) or len(test.operators) != 1:
        return
    for statement in switches.values():
        for node in walk_own(statement, {id(each) for body in blocks(statement) for each in body}):
            if not isinstance(node, ir.Compare) or len(node.operators) != 1 or statement is boundary:
                continue
            sides = layout.flat(node.left), layout.flat(node.comparators[0])
            if sides != (layout.flat(test.left), layout.flat(test.comparators[0])):
                continue
            negated = node.operators != test.operators
            last = _last_test(layout, loop, negated=negated)
            if {*node.operators, *test.operators} <= {"==", "!="} and last:
                _, end = layout.range(node.node)
                draft.put(end, end, f" {'and' if negated else 'or'} {last}", always=True)


def _last_test(layout: Layout, loop: ir.For, *, negated: bool) -> str:
    """`i + 1 == len(loader)`, if the loop counts its batches and their number is known."""
    call, sign = loop.iterable, "!=" if negated else "=="
    while (
        isinstance(call, ir.Call)
        and isinstance(call.function, (ir.Name, ir.Attribute))
        and called_name(call) in ("tqdm", "trange")
    ):
        if not call.arguments:
            return ""
        call = call.arguments[0].value
    if not isinstance(call, ir.Call) or not isinstance(call.function, ir.Name):
        return ""
    if call.function.id == "range" and len(call.arguments) == 1 and isinstance(loop.target, ir.Name):
        return f"{loop.target.id} + 1 {sign} {_closed(layout, call.arguments[0].value)}"
    if call.function.id != "enumerate" or not isinstance(loop.target, ir.Display) or not call.arguments:
        return ""
    index, source = loop.target.elements[0], call.arguments[0].value
    while isinstance(source, ir.Call) and called_name(source) == "tqdm" and source.arguments:
        source = source.arguments[0].value
    if isinstance(source, ir.Call) and called_name(source) in ("setup_dataloaders", "prepare", "prepare_data_loader"):
        source = source.arguments[0].value if len(source.arguments) == 1 else source  # as long as what it wraps
    text = _length(layout, source) if isinstance(index, ir.Name) else ""
    if not text:
        return ""
    assert isinstance(index, ir.Name)
    if len(call.arguments) == 2:
        start = call.arguments[1].value
        if not isinstance(start, ir.Constant) or start.value != 1:
            return ""
        return f"{index.id} {sign} {text}"
    return f"{index.id} + 1 {sign} {text}"


def _length(layout: Layout, source: ir.Expression) -> str:
    """The number of batches that come out of a loader; "" where it is not known."""
    if not isinstance(source, (ir.Name, ir.Attribute)):
        return ""
    text = layout.flat(source)
    return f"len({text})" if _has_length(layout, text) else ""


def _closed(layout: Layout, node: ir.Expression) -> str:
    text = layout.flat(node)
    if any(isinstance(n, ir.Call) and called_name(n) != "len" for n in walk(node)):
        raise Unplannable("the number of its batches is computed by a call")
    return text if isinstance(node, (ir.Name, ir.Attribute, ir.Constant, ir.Call)) else f"({text})"


def _has_length(layout: Layout, text: str) -> bool:
    last = re.escape(text)
    return bool(
        re.search(rf"len\({last}\)", layout.text)
        or re.search(rf"(?<![\w.]){last}\s*=\s*(\w+\.)*(DataLoader|list)\(", layout.text)
        or _is_bar(layout, text)
        or "loader" in text.lower()
    )


def _is_bar(layout: Layout, text: str) -> bool:
    """Whether a name is a progress bar over something whose length is known: it is as long."""
    given = [n.value for n in walk(layout.module.body) if isinstance(n, ir.Assign) and text in bound_names(n)]
    bars = [value for value in given if isinstance(value, ir.Call) and called_name(value) == "tqdm"]
    shown = [bar.arguments[0].value for bar in bars if bar.arguments and not bar.arguments[0].keyword]
    return bool(given) and len(shown) == len(given) and all(_length(layout, each) for each in shown)


def _resets(body: Block) -> Iterator[tuple[str, ir.Expression]]:
    """What the statements of a boundary give to names: `held = 0`, `tokens, held = 0, 0`."""
    for each in body:
        for target in each.targets if isinstance(each, ir.Assign) else ():
            assert isinstance(each, ir.Assign)
            parts: tuple[tuple[ir.Expression, ir.Expression], ...] = ((target, each.value),)
            if isinstance(target, ir.Display) and isinstance(each.value, ir.Display):
                parts = tuple(zip(target.elements, each.value.elements, strict=False))
            yield from ((name.id, value) for name, value in parts if isinstance(name, ir.Name))


def _flush_after(window: Window, boundary: ir.If, loop: ir.For | ir.While, draft: Draft, *, skips: bool) -> None:
    layout = window.layout
    body = boundary.body
    if skips:  # what ends a window stands behind the test that goes on with the next batch
        place = layout.places[boundary.node]
        if len(body) != 1 or place.parent is not loop:
            raise Unplannable("its partial window would have to be flushed after a `continue`")
        body = place.block[place.index + 1 :]
    if any(isinstance(n, (ir.Break, ir.Continue, ir.Return, ir.Yield, ir.Await)) for n in walk(body)):
        raise Unplannable("its boundary leaves the loop")
    tested = {n.id for n in walk(boundary.test) if isinstance(n, ir.Name)}
    zeros = {n for n, value in _resets(body) if isinstance(value, ir.Constant) and value.value == 0}
    counters = sorted(zeros & tested)
    modulo = [n for n in walk(boundary.test) if isinstance(n, ir.Binary) and n.operator == "%"]
    if counters:
        guard = f"{counters[0]} > 0"
    elif len(modulo) == 1 and isinstance(modulo[0].left, ir.Name) and isinstance(boundary.test, ir.Compare):
        if isinstance(loop, ir.For) and modulo[0].left.id in {
            n.id for n in walk(loop.target) if isinstance(n, ir.Name)
        }:
            guard = _by_index(layout, boundary, loop, draft)
        else:
            guard = f"{layout.flat(modulo[0])} != 0"
    elif len(modulo) == 1 and isinstance(loop, ir.For):
        guard = _by_index(layout, boundary, loop, draft)
    else:
        raise Unplannable("whether its loop ended in a partial window is not plain")
    lines = [f"if {guard}:"]
    for statement in body:
        text = [*draft.above.get(statement.node, []), *layout.one_line(statement).split("\n")]
        lines += [layout.unit + line if line else line for line in [*text, *draft.below.get(statement.node, [])]]
    draft.after(loop, *[re.sub(r"\s+# .*$", "", line) for line in lines])


def _by_index(layout: Layout, boundary: ir.If, loop: ir.For, draft: Draft) -> str:
    """`(i + 1) % k != 0` behind `for i, batch in enumerate(...)`: the index is that of the last batch; it starts as if
    there had been one before the first, as a loop over nothing gives it no value."""
    unknown = Unplannable("whether its loop ended in a partial window is not plain")
    call, test = loop.iterable, boundary.test
    counts = isinstance(call, ir.Call) and isinstance(call.function, ir.Name) and call.function.id == "enumerate"
    if not counts or not isinstance(call, ir.Call) or not isinstance(loop.target, ir.Display) or loop.orelse:
        raise unknown
    index, first = loop.target.elements[0], call.arguments[1].value if len(call.arguments) == 2 else None
    if not isinstance(index, ir.Name) or not (first is None or (isinstance(first, ir.Constant) and first.value == 1)):
        raise unknown
    if (
        not isinstance(test, ir.Compare)
        or test.operators != ("==",)
        or not _counts_whole(test, index.id, first is None)
    ):
        raise unknown
    if any(isinstance(n, (ir.Break, ir.Continue, ir.Return)) for n in walk(loop.body, into_scopes=False)):
        raise unknown  # a batch that was left out would be counted
    bound = [name for statement in walk(loop.body) for name in bound_names(statement)]
    if index.id in bound or {n.id for n in walk(test) if isinstance(n, ir.Name)} & set(bound):
        raise unknown
    draft.before(loop, f"{index.id} = {-1 if first is None else 0}")
    left, right = layout.flat(test.left), layout.flat(test.comparators[0])
    return f"{left} != {right}"


def _counts_whole(test: ir.Compare, index: str, from_zero: bool) -> bool:
    """Whether a test holds after whole windows: `(i + 1) % k == 0`, or `i % k == 0` where batches count from 1."""
    modulo, zero = test.left, test.comparators[0]
    if not isinstance(modulo, ir.Binary) or modulo.operator != "%" or getattr(zero, "value", None) != 0:
        return False
    counted = modulo.left
    if any(isinstance(n, ir.Call) for n in walk(modulo.right)) or not isinstance(zero, ir.Constant):
        return False
    if not from_zero:
        return isinstance(counted, ir.Name) and counted.id == index
    return (
        isinstance(counted, ir.Binary) and counted.operator == "+" and isinstance(counted.left, ir.Name)
        and counted.left.id == index and isinstance(counted.right, ir.Constant) and counted.right.value == 1
    )  # fmt: skip
