"""The shape of a window in the source: where its backward, clips, steps and clears stand."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from accumlint.reading import ir
from accumlint.reading.project import FOREIGN
from accumlint.reading.walk import dotted, walk
from accumlint.repair.rewrite import LOOPS, Block, Layout, Unplannable
from accumlint.semantics.trace import ADVANCE, BACKWARD, CLEAR, CLIP, STEP, UNSCALE, UPDATE, Event, Trace

TRAINER_BACKWARD = "self.accelerator.backward"
TRAINER_STEPS = "self.current_gradient_accumulation_steps"
"""How many microbatches the window of a Trainer really has; fewer than configured at the end of an epoch."""
RETURNED = "return"
"""What a framework propagates after the method has returned it is read as the argument of a call of this name."""


@dataclass(slots=True)
class Ending:
    """One place where windows end: the block in which its step stands, with clip, unscale, update and clear."""

    block: Block
    steps: list[ir.Statement]
    clips: list[ir.Statement] = field(default_factory=list)
    unscales: list[ir.Statement] = field(default_factory=list)
    updates: list[ir.Statement] = field(default_factory=list)
    clears: list[ir.Statement] = field(default_factory=list)

    def first(self, layout: Layout) -> ir.Statement:
        """What the division by the count has to stand before: the first clip or step, after any unscale."""
        indices = [i for s in (*self.clips, *self.steps) if (i := layout.in_block(s, self.block)) is not None]
        unscaled = [i for s in self.unscales if (i := layout.in_block(s, self.block)) is not None]
        first = min(indices)
        if unscaled and max(unscaled) >= first and self.steps[0] not in self.unscales:
            raise Unplannable("gradients are unscaled after the clip")
        return self.block[first]

    def last(self, layout: Layout) -> ir.Statement:
        """The last statement that belongs to the step: step, scaler update or clear."""
        parts = (*self.steps, *self.updates, *self.clears)
        return self.block[max(i for s in parts if (i := layout.in_block(s, self.block)) is not None)]


@dataclass(slots=True)
class Window:
    """The window of one optimizer, read off the trace and found again in the source.

    `function` is the host, in which its loop and its steps stand (or the calls of what steps). The backward itself may
    be in a function that the host calls once, `statement` is then that call and `home` the statement of the backward.
    """

    layout: Layout
    trace: Trace
    store: str
    backward: ir.Call
    home: ir.Statement
    statement: ir.Statement
    function: ir.Function | None
    loops: list[ir.For | ir.While]  # around `statement`, innermost first
    endings: list[Ending]
    clears: list[ir.Statement]  # those that belong to no ending
    events: list[Event]
    chain: tuple[ir.Call, ...] = ()  # the calls from the host down to the function of the backward, the lowest first

    @property
    def loop(self) -> ir.For | ir.While:
        if not self.loops:
            raise Unplannable("the loop that drives the backward is not in the same function")
        return self.loops[0]

    @property
    def home_function(self) -> ir.Function | None:
        return self.layout.function(self.home)

    def repeats(self, statement: ir.Statement) -> bool:
        """Whether a statement of the host runs with the microbatches: in their loop, or where a caller has the loop."""
        return not self.loops or self.loops[0] in self.layout.loops(statement)


def events_of(window_events: list[Event], kind: str) -> list[Event]:
    return list({event.node: event for event in window_events if event.kind == kind and event.node >= 0}.values())


def read_window(layout: Layout, trace: Trace) -> Window:
    """The window of the only optimizer of a trace, or of several that always step together."""
    stores = [s for s in trace.stores if any(e.kind == STEP for e in trace.of_store(s))]
    if not stores or any(_rhythm(trace, s) != _rhythm(trace, stores[0]) for s in stores):
        raise Unplannable("several optimizers take turns in this loop")
    events = [e for e in trace.events if e.store in (*stores, "")]
    backwards = events_of(events, BACKWARD)
    if len(backwards) != 1:
        raise Unplannable("several backward calls feed one step")
    call = layout.nodes.get(backwards[0].node)
    if isinstance(call, ir.Return) and call.value is not None:
        call = ir.Call(call.node, ir.Name(call.node, RETURNED), (ir.Argument(call.value),))
    if backwards[0].node >= FOREIGN:
        raise Unplannable("its loop stands in another file")
    if not isinstance(call, ir.Call):
        raise Unplannable("its backward call is not plain")
    home = layout.statement(call.node)
    for statement, chain in _hosts(layout, home, {event.node for event in trace.events}):
        function, loops = layout.function(statement), layout.loops(statement)
        window = Window(layout, trace, stores[0], call, home, statement, function, loops, [], [], events, chain)
        try:
            _find_endings(window)
        except Unplannable:
            continue
        return window
    raise Unplannable("its step is taken in another function than its backward")


def _rhythm(trace: Trace, store: str) -> list[tuple[str, int, int]]:
    """Which backwards an optimizer gets, and on which microbatches it steps."""
    events = [e for e in trace.of_store(store) if e.kind in (BACKWARD, STEP)]
    return [(e.kind, e.microbatch, e.node if e.kind == BACKWARD else -1) for e in events]


def _hosts(
    layout: Layout, home: ir.Statement, known: set[ir.NodeId]
) -> Iterator[tuple[ir.Statement, tuple[ir.Call, ...]]]:
    """The statement of the backward, and the only call of its function, and so on: where the window may stand.

    `known` are calls of a library: `loss.backward()` calls no method of that name in the file.
    """
    statement, chain = home, tuple[ir.Call, ...]()
    for _ in range(3):
        yield statement, chain
        function = layout.function(statement)
        if function is None or function.decorators or function.is_async or function.is_generator:
            return
        others = {id(n.function) for n in walk(layout.module.body) if isinstance(n, ir.Call) and n.node in known}
        named = [n for n in walk(layout.module.body) if _is_named(n, function.name) and id(n) not in others]
        calls = [n for n in calls_of(layout.module.body, function.name) if any(n.function is each for each in named)]
        if len(calls) != 1 or len(named) != 1 or calls[0].node not in layout.holder:
            return
        statement, chain = layout.statement(calls[0].node), (*chain, calls[0])


def calls_of(scope: Block, name: str) -> list[ir.Call]:
    """The calls of a function or method of that name in a body."""
    return [n for n in walk(scope) if isinstance(n, ir.Call) and _is_named(n.function, name)]


def _is_named(node: ir.Expression | ir.Statement, name: str) -> bool:
    return (isinstance(node, ir.Name) and node.id == name) or (isinstance(node, ir.Attribute) and node.name == name)


def _find_endings(window: Window) -> None:
    layout = window.layout
    first = next((place for place, event in enumerate(window.events) if event.kind == BACKWARD), 0)
    events = window.events[first:]
    found = {
        kind: list(dict.fromkeys(s for e in events_of(events, kind) for s in local_statements(window, e.node)))
        for kind in (STEP, CLIP, UNSCALE, UPDATE)
    }
    found[CLEAR] = []
    for event in events_of(window.events, CLEAR):
        try:
            places = local_statements(window, event.node)
        except Unplannable:
            if any(each.node == event.node for each in events):
                raise
            continue  # before the loop, in set-up
        found[CLEAR] += [s for s in places if s not in found[CLEAR]]
    keyed: dict[int, list[ir.Statement]] = {}
    for step in found[STEP]:
        keyed.setdefault(_key(layout, step), []).append(step)
    for key, steps in keyed.items():
        clips = [s for s in found[CLIP] if _key(layout, s) == key]
        window.endings.append(Ending(layout.common_block([*steps]), steps, clips))
    for ending in window.endings:

        def near(kind: str, block: Block = ending.block, step: ir.Statement = ending.steps[0]) -> list[ir.Statement]:
            within = [s for s in found[kind] if layout.in_block(s, block) is not None]
            return [s for s in within if not window.repeats(s) or window.repeats(step)]

        ending.clips = near(CLIP)
        ending.unscales = near(UNSCALE)
        ending.updates = near(UPDATE)
        place = min(layout.in_block(s, ending.block) or 0 for s in ending.steps)
        ending.clears = [
            s for s in near(CLEAR) if (layout.in_block(s, ending.block) or 0) >= place and s is not window.statement
        ]
    own = {id(s) for ending in window.endings for s in ending.clears}
    window.clears = [s for s in found[CLEAR] if id(s) not in own]


def _key(layout: Layout, statement: ir.Statement) -> int:
    loops = layout.loops(statement)
    return loops[0].node if loops else -1


def local_statements(window: Window, node: ir.NodeId) -> list[ir.Statement]:
    """The statements in the backward's function that are, or call the helper that holds, a node."""
    layout = window.layout
    statement = layout.statement(node)
    for _ in range(3):
        function = layout.function(statement)
        if function is window.function:
            return [statement]
        if function is None:
            break
        scope = layout.scope(window.function)
        calls = [
            each
            for each in walk(scope)
            if isinstance(each, ir.Call)
            and (
                (isinstance(each.function, ir.Name) and each.function.id == function.name)
                or (isinstance(each.function, ir.Attribute) and each.function.name == function.name)
            )
            and each.node in layout.holder
        ]
        if not calls:
            break
        near = [layout.statement(call.node) for call in calls]
        if all(layout.function(each) is window.function for each in near):
            return near
        if len(calls) != 1:
            break
        statement = near[0]
    raise Unplannable("its step is taken in another function than its backward")


def outside_parameters(window: Window, statement: ir.Statement) -> ir.Statement:
    """The statement, or the loop over parameters or groups around it: `for p in ...: p.grad = None`."""
    layout = window.layout
    within = [loop for loop in layout.loops(statement) if loop not in window.loops]
    return within[-1] if within else statement


def optimizer_text(layout: Layout, statement: ir.Statement) -> str:
    """The optimizer that a step statement steps."""
    if isinstance(statement, ir.Evaluate) and isinstance(statement.value, ir.Call):
        call = statement.value
        if isinstance(call.function, ir.Attribute) and call.function.name == "step":
            if not call.arguments:
                return layout.flat(call.function.value)
            if len(call.arguments) == 1 and not call.arguments[0].star:
                return layout.flat(call.arguments[0].value)
    raise Unplannable("which optimizer its step steps is not plain")


def find_optimizer(window: Window) -> str:
    """The optimizer's text, in the function of the backward."""
    layout = window.layout
    texts: set[str] = set()
    for event in events_of(window.events, STEP):
        statement = layout.statement(event.node)
        text = optimizer_text(layout, statement)
        helper = layout.function(statement)
        if helper is not window.function:
            text = text_at_caller(window, helper, text)
        texts.add(text)
    if len(texts) != 1:
        raise Unplannable("its optimizer has several names")
    return texts.pop()


def text_at_caller(window: Window, helper: ir.Function | None, text: str) -> str:
    """What a name of a helper is called in the function of the backward; Unplannable where that is not plain."""
    if text.startswith("self.") or helper is None or helper is window.function:
        return text
    names = [p.name for p in helper.parameters]
    root = text.partition(".")[0]
    if root not in names:
        own = {
            n.id
            for s in walk(helper.body)
            if isinstance(s, ir.Assign)
            for t in s.targets
            for n in walk(t)
            if isinstance(n, ir.Name)
        }
        nested = window.layout.function(helper) is window.function
        if root in own or not (nested or window.function is None or not _is_local(window.function, root)):
            raise Unplannable("which optimizer its helper steps is not plain")
        return text
    if text != root:
        raise Unplannable("which optimizer its helper steps is not plain")
    calls = calls_of(window.layout.scope(window.function), helper.name)
    given = {_argument(window, helper, call, text) for call in calls}
    if len(given) != 1 or None in given:
        raise Unplannable("which optimizer its helper steps is not plain")
    return str(given.pop())


def _is_local(function: ir.Function, name: str) -> bool:
    bound = {
        n.id
        for s in walk(function.body)
        if isinstance(s, (ir.Assign, ir.For, ir.With))
        for n in walk(s)
        if isinstance(n, ir.Name)
    }
    return name in bound or any(p.name == name for p in function.parameters)


def _argument(window: Window, helper: ir.Function, call: ir.Call, name: str) -> str | None:
    names = [p.name for p in helper.parameters]
    if isinstance(call.function, ir.Attribute) and names[:1] == ["self"]:
        names = names[1:]
    for position, argument in enumerate(call.arguments):
        if argument.star:
            return None
        if argument.keyword == name or (not argument.keyword and names[position : position + 1] == [name]):
            return window.layout.flat(argument.value)
    return None


def is_trainer_step(window: Window) -> bool:
    """Whether a Hugging Face Trainer calls the method that holds the backward, once a microbatch."""
    function = window.function
    named = function is not None and function.name == "training_step" and not window.loops
    return named and dotted(window.backward.function) == TRAINER_BACKWARD and "transformers" in window.layout.text


def steps_text(window: Window) -> str:
    """The number of accumulation steps as it is written at the boundary or at the loop over one window."""
    layout = window.layout
    if is_trainer_step(window):
        return TRAINER_STEPS
    for ending in window.endings:
        for statement in (ending.steps[0], *layout.parents(ending.steps[0])):
            if isinstance(statement, ir.If):
                for node in walk(statement.test):
                    if isinstance(node, ir.Binary) and node.operator == "%" and _plain(node.right):
                        return layout.flat(node.right)
                    if isinstance(node, ir.Compare) and node.operators in (("==",), (">=",)):
                        left, right = node.left, node.comparators[0]
                        if isinstance(left, ir.Name) and _plain(right) and window.trace.steps_text:
                            return layout.flat(right)
    if (
        window.loops
        and isinstance(window.loop, ir.For)
        and all(window.loop not in layout.loops(s) for e in window.endings for s in e.steps)
    ):
        iterable = window.loop.iterable
        if isinstance(iterable, ir.Call) and isinstance(iterable.function, ir.Name) and len(iterable.arguments) == 1:
            inner = iterable.arguments[0].value
            if iterable.function.id == "range" and _plain(inner):
                return layout.flat(inner)
            if iterable.function.id in ("enumerate", "tqdm") and _plain(inner):
                return f"len({layout.flat(inner)})"
        if _plain(iterable):
            return f"len({layout.flat(iterable)})"
    raise Unplannable("the number of accumulation steps is not written plainly")


def _plain(node: ir.Expression) -> bool:
    return isinstance(node, (ir.Name, ir.Attribute, ir.Constant)) or (
        isinstance(node, ir.Subscript) and _plain(node.value) and _plain(node.index)
    )


__all__ = ["ADVANCE", "LOOPS", "Ending", "Window", "find_optimizer", "outside_parameters", "read_window", "steps_text"]
