"""Engines (DeepSpeed): backward divides by the number of steps, and the step, the clip and the gradients are their own.

There is no place between the last backward of a window and the engine's division, clip and step at which a gradient
could be divided. So the window is collected first: batches are kept until there are as many as the engine accumulates,
their targets are counted on all ranks, and each loss sum is divided by the mean count that the engine's own averages
(over its steps and the ranks) leave. What does not fill a window waits for the next pass, as in the engine.
"""

from __future__ import annotations

import re

from accumlint.reading import ir
from accumlint.reading.walk import dotted, walk
from accumlint.repair.averaging import Averaging, bound_name
from accumlint.repair.boundary import Window
from accumlint.repair.collect import Collection, find_fetch, sums
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.trace import STEP

INITIALIZE = "initialize"
OTHER_PARALLEL = frozenset({"mpu", "mesh_param", "mesh_device", "topology", "dist_init_required"})
PARALLEL = re.compile(r"\bPipelineModule\b|\bsequence_parallel_size\b|\btp_model_init\b|\bautotp_size\b|\bmpu\b")
LEFT_BEHIND = "batches that fill no window when the function ends are not used: it keeps no engine from call to call"
OPPOSITE = {">=": "<", ">": "<=", "<": ">=", "<=": ">", "==": "!=", "!=": "=="}


def is_engine(window: Window) -> bool:
    """Whether the backward is an engine's: it gates its own step."""
    steps = [e for e in window.events if e.kind == STEP]
    text = window.layout.text
    gated = bool(steps) and all(e.gated for e in steps) and bool(window.loops)
    return gated and "deepspeed" in text and "accelerat" not in text.lower()


def engine_averaging(window: Window) -> Averaging:
    """How an engine averages what is propagated: over its steps and over the ranks."""
    layout, function = window.layout, window.backward.function
    owner = function.value if isinstance(function, ir.Attribute) and window.backward.arguments else None
    if not isinstance(owner, (ir.Name, ir.Attribute)):
        raise Unplannable("which engine runs its backward is not plain")
    if any(argument.keyword == "scale_wrt_gas" for argument in window.backward.arguments):
        raise Unplannable("whether the engine divides by its number of steps is set by hand")
    if PARALLEL.search(layout.text):
        raise Unplannable("the ranks of the engine do not all hold batches of their own")
    engine = layout.flat(owner)
    torch = bound_name(layout, "torch")
    own = bound_name(layout, "deepspeed.comm") or bound_name(layout, "torch.distributed")
    dist = own or f"{torch or 'torch'}.distributed"
    return Averaging(
        f"{engine}.dp_world_size",
        (
            f"{{total}} = {torch or 'torch'}.tensor({{count}}, device={engine}.device)",
            f"{dist}.all_reduce({{total}})",
            "{total} = {total}.item()",
        ),
        (),
        imports="" if torch else "import torch",
        divisor=f"{engine}.gradient_accumulation_steps()",
    )


def plan_buffered(window: Window, steps: str, draft: Draft, names: Names) -> Collection | None:
    """Batches are kept until they fill a window, then the loop's body runs for each of them; None for loops over
    numbers, which fetch their batches themselves."""
    layout, loop = window.layout, window.loop
    if not isinstance(loop, ir.For) or loop.is_async:
        raise Unplannable("its window cannot be collected: the loop is no plain `for`")
    if find_fetch(layout, loop) is not None:
        return None
    if loop.orelse:
        raise Unplannable("its window cannot be collected: the loop has an `else`")
    if any(isinstance(n, ir.Starred) for n in walk(loop.target)):
        raise Unplannable("its window cannot be collected: the loop unpacks its batches in an unusual way")
    first = _first_kept(loop)
    if _skips(window, loop, first):
        raise Unplannable("its window cannot be collected: a microbatch may be skipped before its backward")
    breaks = [n for n in walk(loop.body, into_scopes=False) if isinstance(n, ir.Break) and _leaves(layout, loop, n)]
    if breaks and not all(_ends_all(window, each) for each in breaks):
        raise Unplannable("its window cannot be collected: a `break` leaves it and the next pass goes on")
    held, microbatches = names.free("window"), names.free("microbatches")

    def write(totals: list[tuple[str, str]], lines: list[str]) -> None:
        shown = layout.flat(loop.target)
        kept = f"({shown})" if isinstance(loop.target, ir.Display) and not shown.startswith(("(", "[")) else shown
        header = [
            f"{held}.append({kept})",
            f"if len({held}) < {steps}:",
            f"{layout.unit}continue",
            *sums(layout, loop.target, totals, held),
            *lines,
            f"{microbatches}, {held} = {held}, []",
            f"for {shown} in {microbatches}:",
        ]
        footer = ["else:", f"{layout.unit}continue", "break"] if breaks else []
        draft.before(window.loops[-1], f"{held} = []")
        draft.wrap_body(loop, header, footer, layout.unit, first)

    return Collection(loop, {n.id for n in walk(loop.target) if isinstance(n, ir.Name)}, loop, write)


def _first_kept(loop: ir.For) -> int:
    """The place of the first statement behind tests that only skip batches: those are asked before one is kept."""
    for place, statement in enumerate(loop.body):
        skips = isinstance(statement, ir.If) and not statement.orelse and isinstance(statement.body[-1], ir.Continue)
        if not skips or any(isinstance(n, (ir.Assign, ir.Augment, ir.Break)) for n in walk(statement)):
            return place
    return 0


def _skips(window: Window, loop: ir.For, first: int) -> bool:
    """Whether a microbatch of the collected window may not reach its backward."""
    layout = window.layout
    at = layout.range(window.statement.node)[0]
    kept = loop.body[first:]
    early = [n for n in walk(kept, into_scopes=False) if isinstance(n, ir.Continue) and layout.range(n.node)[0] < at]
    guarded = [
        p for p in layout.parents(window.statement) if isinstance(p, (ir.If, ir.Try)) and loop in layout.loops(p)
    ]
    return bool(guarded) or any(layout.loops(n)[:1] == [loop] for n in early)


def _leaves(layout: Layout, loop: ir.For, statement: ir.Break) -> bool:
    return layout.loops(statement)[:1] == [loop]


def _ends_all(window: Window, statement: ir.Break) -> bool:
    """Whether no loop around goes on after a `break` in the middle of a window: there is none, or its own test ends."""
    layout = window.layout
    around = window.loops[1:]
    if not around:
        return True
    guard = layout.places[statement.node].parent
    if not isinstance(guard, ir.If) or len(around) != 1:
        return False
    outer = around[0]
    if isinstance(outer, ir.While):
        return _negates(layout, guard.test, outer.test)
    place = layout.places[window.loop.node]
    if place.parent is not outer:
        return False
    following = place.block[place.index + 1 :]
    return any(
        isinstance(each, ir.If)
        and layout.flat(each.test) == layout.flat(guard.test)
        and any(isinstance(inner, (ir.Break, ir.Return)) for inner in each.body)
        for each in following
    )


def _negates(layout: Layout, left: ir.Expression, right: ir.Expression) -> bool:
    """Whether two comparisons of the same two expressions are each other's opposite."""
    if not isinstance(left, ir.Compare) or not isinstance(right, ir.Compare):
        return False
    if len(left.operators) != 1 or len(right.operators) != 1:
        return False
    same = layout.flat(left.left) == layout.flat(right.left) and layout.flat(left.comparators[0]) == layout.flat(
        right.comparators[0]
    )
    return same and OPPOSITE.get(_word(left)) == _word(right)


def _word(test: ir.Compare) -> str:
    operator = test.operators[0]
    return operator if isinstance(operator, str) else operator[0]


def left_behind(window: Window) -> str:
    """What is lost where the function is called once a pass and the engine lives longer than it; "" elsewhere."""
    layout = window.layout
    scope = layout.scope(window.function)
    made = any(
        isinstance(n, ir.Call) and (dotted(n.function) or "").rpartition(".")[2] == INITIALIZE for n in walk(scope)
    )
    return "" if made or len(window.loops) > 1 else LEFT_BEHIND


__all__ = ["engine_averaging", "is_engine", "left_behind", "plan_buffered"]
