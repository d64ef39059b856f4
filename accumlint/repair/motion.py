"""Repairs of order: what ran per microbatch moves to the boundary, the boundary is corrected, the tail is flushed."""

from __future__ import annotations

from accumlint.contract.verdict import Clause, Violation
from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.accelerate import gate_parts
from accumlint.repair.boundary import (
    TRAINER_STEPS,
    Ending,
    Window,
    events_of,
    find_optimizer,
    is_trainer_step,
    outside_parameters,
    steps_text,
    text_at_caller,
)
from accumlint.repair.carry import carry_down, carry_up
from accumlint.repair.distributed import move_switch
from accumlint.repair.flow import by_steps, propagated
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLIP, STEP, UNSCALE, UPDATE


def divide_too_little(window: Window, wanted: list[Violation], draft: Draft) -> None:
    """Divide what is propagated by the number of steps; what is logged stays as it is."""
    layout = window.layout
    steps = carry_down(layout, steps_text(window), window.chain)
    argument = propagated(window.backward)
    text = layout.source(argument.node)
    if isinstance(argument, (ir.Binary, ir.Conditional, ir.Boolean)):
        content = f"({text}) / {steps}"
    elif window.backward.arguments and argument is window.backward.arguments[0].value:
        content = f"{text} / {steps}"
    elif isinstance(window.backward.function, ir.Attribute) and argument is window.backward.function.value:
        content = f"({text} / {steps})"
    else:
        content = f"{text} / {steps}"
    draft.put(*layout.range(argument.node), content)


def divide_by_window(window: Window, draft: Draft) -> None:
    """Divide by the number of microbatches that the window has, in the place of the configured one."""
    event = next(e for e in window.events if e.kind == BACKWARD)
    nodes = () if event.form is None else sorted(by_steps(window, event.form))
    if not nodes or not is_trainer_step(window):
        raise Unplannable("how many microbatches its window has is not known")
    for node in nodes:
        division = window.layout.nodes.get(node)
        if isinstance(division, ir.Binary) and division.operator == "/":
            draft.put(*window.layout.range(division.right.node), TRAINER_STEPS)
        elif isinstance(division, ir.Augment) and division.operator == "/":
            draft.put(*window.layout.range(division.value.node), TRAINER_STEPS)
        else:
            raise Unplannable("the division is not plain")


def divide_once(window: Window, wanted: list[Violation], draft: Draft) -> None:
    """Remove the division that is reported; other uses of the loss keep their value."""
    layout = window.layout
    violation = next(v for v in wanted if v.clause is Clause.DIVIDED_TWICE)
    node = layout.nodes.get(violation.node)
    statement = layout.statement(violation.node)
    if isinstance(node, ir.Evaluate):
        node = node.value
    if isinstance(node, ir.Augment) and node.operator == "/":
        name: ir.Expression | None = node.target
        divisor = node.value
    elif isinstance(node, ir.Binary) and node.operator == "/":
        name = statement.targets[0] if isinstance(statement, ir.Assign) and statement.value is node else None
        divisor = node.right
    else:
        raise Unplannable("the division is not plain")
    if isinstance(name, ir.Name):
        _keep_uses(window, statement, name.id, divisor, draft)
    elif name is not None:
        raise Unplannable("the divided loss is kept in an attribute")
    if isinstance(node, ir.Augment) or (
        isinstance(name, ir.Name) and isinstance(node.left, ir.Name) and node.left.id == name.id
    ):
        draft.delete(statement)
        return
    if name is None and not isinstance(node.left, (ir.Name, ir.Call)):
        raise Unplannable("the division is not plain")
    _, end = layout.range(node.node)
    _, left_end = layout.range(node.left.node)
    tail = layout.text[left_end:end]
    closing = len(tail) - len(tail.lstrip(")"))
    draft.put(left_end + closing, end, "")


def _keep_uses(window: Window, statement: ir.Statement, name: str, divisor: ir.Expression, draft: Draft) -> None:
    layout = window.layout
    after = layout.range(statement.node)[1]
    function = layout.function(statement)
    argument = {id(n) for n in walk(window.backward)}
    for each in walk(layout.scope(function)):
        if (
            isinstance(each, ir.Name)
            and each.id == name
            and layout.range(each.node)[0] >= after
            and id(each) not in argument
        ):
            holder = layout.statement(each.node)
            if isinstance(holder, (ir.Assign, ir.Augment)) and any(
                n is each
                for t in (holder.targets if isinstance(holder, ir.Assign) else (holder.target,))
                for n in walk(t)
            ):
                raise Unplannable("the divided loss gets other values as well")
            if function is not window.home_function:
                raise Unplannable("the divided loss is used in its helper")
            text = layout.flat(divisor)
            if '"' in text or "'" in text:
                raise Unplannable("the divided loss is also logged")
            draft.put(*layout.range(each.node), f"({name} / {text})")


def move_parts(window: Window, wanted: list[Violation], draft: Draft) -> None:
    """Everything that only stands at the wrong place."""
    layout = window.layout
    by_clause: dict[Clause, list[ir.Statement]] = {}
    for violation in wanted:
        by_clause.setdefault(violation.clause, []).append(layout.statement(violation.node))
    by_clause = gate_parts(window, by_clause, draft)
    for test in by_clause.get(Clause.OFF_BY_ONE, []):
        _correct_test(layout, test, draft)
    for switch in by_clause.get(Clause.SYNC, []):
        if not move_switch(window, switch, draft):
            _correct_test(layout, switch, draft)
    moved = _move_steps(window, by_clause, draft)
    if moved:
        return
    for ending in window.endings:
        clips = by_clause.get(Clause.CLIP_COUNT, [])
        lines: list[str] = []
        outside_unscale = [s for s in by_clause.get(Clause.SCALER, []) if _calls(s, "unscale_")]
        lines += [_line(window, s) for s in outside_unscale if s not in _within(layout, ending, ending.unscales)]
        if Clause.CLIP_SCALED in by_clause and clips and not _explicit_unscales(window):
            lines.append(_unscale_text(window))
        lines += [_line(window, _movable(layout, s)) for s in clips]
        if lines:
            anchor = ending.first(layout) if not clips else _step_in(layout, ending)
            draft.before(anchor, *[part for line in lines for part in line.split("\n")])
        late = [_line(window, s) for s in by_clause.get(Clause.SCALER, []) if _calls(s, "update")]
        late += [_line(window, _movable(layout, s)) for s in by_clause.get(Clause.SCHEDULE, [])]
        last = _last_of(
            layout, ending, [*ending.steps, *[u for u in ending.updates if u not in by_clause.get(Clause.SCALER, [])]]
        )
        cleared = by_clause.get(Clause.CLEARED_INSIDE, [])
        if Clause.NEVER_CLEARED in by_clause:
            late.append(f"{find_optimizer(window)}.zero_grad()")
        elif cleared and _in_loop(window, ending) and not [c for c in ending.clears if c not in cleared]:
            late += [_line(window, s) for s in cleared[:1]]
        if late:
            draft.after(last, *[part for line in late for part in line.split("\n")])
    if Clause.CLIP_SCALED in by_clause and Clause.CLIP_COUNT not in by_clause:
        _unscale_first(window, by_clause[Clause.CLIP_SCALED], draft)
    _remove_originals(window, by_clause, draft)


def _unscale_first(window: Window, clips: list[ir.Statement], draft: Draft) -> None:
    """`scaler.unscale_(optimizer)` before a clip, in the function of the step."""
    layout = window.layout
    steps = [layout.statement(e.node) for e in events_of(window.events, STEP)]
    late = _explicit_unscales(window)
    for clip in clips:
        near = [s for s in steps if layout.function(s) is layout.function(clip)]
        if not near:
            raise Unplannable("its clip and its step are in different functions")
        if late:  # unscaled after the clip: a second `unscale_` before one `update` raises
            block = layout.places[_movable(layout, clip).node].block
            if len(clips) > 1 or len(late) > 1 or layout.places[late[0].node].block is not block:
                raise Unplannable("gradients are unscaled after the clip")
            draft.before(_movable(layout, clip), layout.one_line(late[0]))
            draft.delete(late[0], moved=True)
        else:
            draft.before(_movable(layout, clip), _unscale(layout, near[0]))


def _explicit_unscales(window: Window) -> list[ir.Statement]:
    """The statements that call `unscale_`, not those of `scaler.step`, which does so where it was not done before."""
    nodes = {e.node for e in events_of(window.events, UNSCALE) if e.detail != "implicit"}
    return [window.layout.statement(node) for node in sorted(nodes) if node in window.layout.holder]


def _remove_originals(window: Window, by_clause: dict[Clause, list[ir.Statement]], draft: Draft) -> None:
    layout = window.layout
    for clause in (Clause.CLIP_COUNT, Clause.SCHEDULE, Clause.SCALER):
        for statement in by_clause.get(clause, []):
            draft.delete(_movable(layout, statement), moved=True)
    for statement in by_clause.get(Clause.CLEARED_INSIDE, []):
        if not any(_in_loop(window, ending) for ending in window.endings):
            draft.before(window.loop, _line(window, statement))
        draft.delete(statement, moved=True)


def _move_steps(window: Window, by_clause: dict[Clause, list[ir.Statement]], draft: Draft) -> bool:
    """Steps that ran per microbatch move, with their clip and scaler, before the clear of the window."""
    layout = window.layout
    steps = by_clause.get(Clause.STEP_COUNT, [])
    if not steps:
        return False
    if len(window.endings) != 1 or len(steps) != 1:
        raise Unplannable("several steps run per microbatch")
    ending = window.endings[0]
    own = [e for kind in (UNSCALE, CLIP, STEP, UPDATE) for e in events_of(window.events, kind)]
    parts = [layout.statement(event.node) for event in own]
    block = layout.places[steps[0].node].block
    parts = sorted({layout.places[s.node].index: s for s in parts if layout.places[s.node].block is block}.items())  # type: ignore[assignment]
    ordered = [s for _, s in parts]  # type: ignore[misc]
    clears = [s for s in (*ending.clears, *window.clears) if window.repeats(s)]
    lines = [_line(window, s) for s in ordered]
    if not clears:
        draft.after(window.loop, *lines)
    else:
        clear = outside_parameters(window, clears[-1])
        block = layout.places[clear.node].block
        advances = [layout.statement(e.node) for e in events_of(window.events, ADVANCE) if e.node in layout.holder]
        first = min(
            [clear, *[s for s in advances if layout.places[s.node].block is block]],
            key=lambda s: layout.places[s.node].index,
        )
        draft.before(first, *lines)
    for statement in ordered:
        draft.delete(statement, moved=True)
    return True


def _line(window: Window, statement: ir.Statement) -> str:
    """A statement as a line of the host: it may stand in the function of the backward."""
    layout = window.layout
    text = layout.one_line(statement)
    if layout.function(statement) is window.function or not window.chain:
        return text
    if layout.function(statement) is not window.home_function:
        raise Unplannable("what has to move stands in a helper of its own")
    return carry_up(layout, text, window.chain)


def _in_loop(window: Window, ending: Ending) -> bool:
    return window.repeats(ending.steps[0])


def _within(layout: Layout, ending: Ending, statements: list[ir.Statement]) -> list[ir.Statement]:
    return [s for s in statements if layout.places[s.node].block is ending.block]


def _step_in(layout: Layout, ending: Ending) -> ir.Statement:
    return ending.block[min(i for s in ending.steps if (i := layout.in_block(s, ending.block)) is not None)]


def _last_of(layout: Layout, ending: Ending, statements: list[ir.Statement]) -> ir.Statement:
    return ending.block[max(i for s in statements if (i := layout.in_block(s, ending.block)) is not None)]


def _calls(statement: ir.Statement, name: str) -> bool:
    return any(
        isinstance(n, ir.Call) and isinstance(n.function, ir.Attribute) and n.function.name == name
        for n in walk(statement)
    )


def _unscale_text(window: Window) -> str:
    """`scaler.unscale_(optimizer)` as it is written in the function of the backward."""
    layout = window.layout
    step = layout.statement(events_of(window.events, STEP)[0].node)
    text, helper = _unscale(layout, step), layout.function(step)
    if helper is window.function:
        return text
    scaler, _, optimizer = text.removesuffix(")").partition(".unscale_(")
    return f"{text_at_caller(window, helper, scaler)}.unscale_({text_at_caller(window, helper, optimizer)})"


def _unscale(layout: Layout, step: ir.Statement) -> str:
    if (
        isinstance(step, ir.Evaluate)
        and isinstance(step.value, ir.Call)
        and isinstance(step.value.function, ir.Attribute)
    ):
        call, method = step.value, step.value.function
        if method.name == "step" and len(call.arguments) == 1:
            scaler, optimizer = method.value, call.arguments[0].value
            return f"{layout.flat(scaler)}.unscale_({layout.flat(optimizer)})"
    raise Unplannable("which scaler steps is not plain")


def _movable(layout: Layout, statement: ir.Statement) -> ir.Statement:
    """The statement, or the `if` that holds nothing else."""
    place = layout.places[statement.node]
    while len(place.block) == 1 and isinstance(place.parent, ir.If) and not place.parent.orelse:
        statement = place.parent
        place = layout.places[statement.node]
    return statement


def _correct_test(layout: Layout, statement: ir.Statement, draft: Draft) -> None:
    """`i % K == 0` becomes `(i + 1) % K == 0`, once."""
    own = [
        n
        for n in layout.nodes.values()
        if isinstance(n, ir.Binary) and n.operator == "%" and layout.holder[n.node] is statement
    ]
    if not own and isinstance(statement, ir.If) and (given := named_test(layout, statement)) is not None:
        _correct_test(layout, given, draft)
        return
    if not own and _last_of_range(layout, statement, draft):
        return
    if len(own) != 1:
        raise Unplannable("the test of its boundary is not plain")
    left = own[0].left
    if isinstance(left, ir.Name):
        draft.put(*layout.range(left.node), f"({left.id} + 1)")
    elif isinstance(left, ir.Binary) and left.operator == "+" and isinstance(left.left, ir.Name):
        start, end = layout.range(left.node)
        while layout.text[start - 1] == "(" and layout.text[end : end + 1] == ")":
            start, end = start - 1, end + 1
        draft.put(start, end, left.left.id)
    else:
        raise Unplannable("the test of its boundary is not plain")


def _last_of_range(layout: Layout, statement: ir.Statement, draft: Draft) -> bool:
    """`k == 0` in `for k in range(K):`, a loop over one window, becomes `k == K - 1`."""
    loop = next(iter(layout.loops(statement)), None)
    call = loop.iterable if isinstance(loop, ir.For) and isinstance(loop.target, ir.Name) else None
    if not isinstance(call, ir.Call) or getattr(call.function, "id", "") != "range" or len(call.arguments) != 1:
        return False
    stop, counter = call.arguments[0].value, getattr(getattr(loop, "target", None), "id", "")
    tests = [
        n
        for n in layout.nodes.values()
        if isinstance(n, ir.Compare) and layout.holder[n.node] is statement and n.operators in (("==",), ("!=",))
        and getattr(n.left, "id", "") == counter
    ]  # fmt: skip
    right = tests[0].comparators[0] if len(tests) == 1 else None
    if not isinstance(right, ir.Constant) or right.value != 0 or not isinstance(stop, (ir.Name, ir.Attribute)):
        return False
    draft.put(*layout.range(right.node), f"{layout.flat(stop)} - 1")
    return True


def named_test(layout: Layout, boundary: ir.If) -> ir.Assign | None:
    """The only statement that gives the name that a boundary tests: `last = (i + 1) % K == 0`, asked by `if last:`."""
    test = boundary.test
    name = test.operand if isinstance(test, ir.Unary) and test.operator == "not" else test
    function = layout.function(boundary)
    if not isinstance(name, ir.Name):
        return None
    found = [
        n
        for n in walk(layout.scope(function))
        if isinstance(n, ir.Assign) and any(isinstance(t, ir.Name) and t.id == name.id for t in n.targets)
    ]
    same = len(found) == 1 and layout.loops(found[0])[:1] == layout.loops(boundary)[:1]
    return found[0] if same else None
