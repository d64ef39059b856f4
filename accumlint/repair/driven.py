"""Loops that a framework owns, of which the file holds one method: a Lightning `training_step`.

The count of a window is kept on the module, between the calls. Under manual optimization the gradient is divided in
the step that the method takes itself; under automatic optimization in the hook that Lightning calls when a window is
complete, after gradients are unscaled and before they are clipped.
"""

from __future__ import annotations

import re

from accumlint.reading import ir
from accumlint.reading.walk import called_name, walk
from accumlint.repair.averaging import Averaging, bound_name
from accumlint.repair.boundary import RETURNED, Window, find_optimizer
from accumlint.repair.counts import Leaf
from accumlint.repair.deferred import read_loss, rewrite_loss
from accumlint.repair.names import Names
from accumlint.repair.rewrite import Draft, Layout, Unplannable

HOOK = "on_before_optimizer_step"
LAST = "self.trainer.is_last_batch"
FP16 = re.compile(r"(?<!bf)16-mixed|precision\s*=\s*[\"']?16\b")
RAW_SUMS = "raw loss sums can overflow fp16: under precision 16-mixed steps are skipped until the scale has come down"
ENGINES = re.compile(r"deepspeed", re.I)


def is_driven(window: Window) -> bool:
    """Whether Lightning calls the method that holds the backward, or propagates what it returns."""
    name = called_name(window.backward)
    return not window.loops and name in ("manual_backward", RETURNED) and _owner(window) is not None


def plan_driven(window: Window, draft: Draft, names: Names) -> Leaf:
    """All edits of the recipe: count on the module, divide once at the boundary or in the hook."""
    layout = window.layout
    if ENGINES.search(layout.text):
        raise Unplannable("under Lightning's DeepSpeed strategy the engine keeps the gradients to itself")
    owner = _owner(window)
    if owner is None:
        raise Unplannable("the loop that drives the backward is not in the same function")
    returned = is_returned(window)
    flow, leaf = read_loss(window, draft, names)
    counter = f"self.{names.free('num_targets' if leaf.exact else 'total_weight')}"
    rewrite_loss(window, flow, leaf, counter, draft, names)
    averaging = _averaging(layout, returned)
    averaging.prepare(layout, draft)
    reset = f"{counter} = {leaf.zero}"
    _start_at_zero(layout, owner, counter, leaf.zero, draft)
    if returned:
        _divide_in_hook(window, owner, [*averaging.lines(leaf, counter, "optimizer", layout, names), reset], draft)
        return leaf
    if not window.endings or any(layout.function(e.steps[0]) is not window.function for e in window.endings):
        raise Unplannable("its step is taken in another function than its backward")
    optimizer = find_optimizer(window)
    for ending in window.endings:
        draft.before(ending.first(layout), *averaging.lines(leaf, counter, optimizer, layout, names))
        draft.after(ending.last(layout), reset)
    for clear in window.clears:
        if layout.range(clear.node)[0] < layout.range(window.statement.node)[0]:
            draft.after(clear, reset)
    return leaf


def is_returned(window: Window) -> bool:
    return getattr(window.backward.function, "id", "") == RETURNED


def raw_sums(window: Window) -> tuple[str, str]:
    """What fp16 makes of a repair, as a hazard where the file asks for it, else as a note."""
    return (RAW_SUMS, "") if FP16.search(window.layout.text) else ("", RAW_SUMS)


def step_at_the_end(window: Window, boundary: ir.If, draft: Draft) -> None:
    """Let the last microbatch of an epoch end its window, too."""
    layout = window.layout
    start, end = layout.range(boundary.test.node)
    while layout.text[start - 1] == "(" and layout.text[end : end + 1] == ")":
        start, end = start - 1, end + 1
    loose = isinstance(boundary.test, (ir.Boolean, ir.Conditional)) and layout.text[start] != "("
    if loose:
        draft.put(start, start, "(", always=True)
    draft.put(end, end, f"{')' if loose else ''} or {LAST}", always=True)


def _owner(window: Window) -> ir.Class | None:
    if window.function is None:
        return None
    parent = window.layout.places[window.function.node].parent
    return parent if isinstance(parent, ir.Class) else None


def _averaging(layout: Layout, returned: bool) -> Averaging:
    torch = bound_name(layout, "torch")
    divisor = "self.trainer.accumulate_grad_batches" if returned else ""
    world = "self.trainer.world_size"
    return Averaging(
        world,
        (f"{{total}} = self.all_gather({torch or 'torch'}.tensor({{count}}, device=self.device)).sum().item()",),
        (f"{{scale}} = {f'{world} * {divisor}' if divisor else world} / {{total}}",),
        imports="" if torch else "import torch",
    )


def _start_at_zero(layout: Layout, owner: ir.Class, counter: str, zero: str, draft: Draft) -> None:
    """Give the module its count: at the end of its `__init__`, or as an attribute of the class."""
    made = next((s for s in owner.body if isinstance(s, ir.Function) and s.name == "__init__"), None)
    if made is not None and not isinstance(made.body[-1], (ir.Return, ir.Raise)):
        draft.after(made.body[-1], f"{counter} = {zero}")
        return
    first = owner.body[0]
    if isinstance(first, ir.Evaluate) and isinstance(first.value, ir.Constant) and len(owner.body) > 1:
        first = owner.body[1]
    if isinstance(first, ir.Function) and first.decorators:
        raise Unplannable("its class has no plain place for the count of a window")
    draft.before(first, f"{counter.removeprefix('self.')} = {zero}", *([""] if isinstance(first, ir.Function) else []))


def _divide_in_hook(window: Window, owner: ir.Class, lines: list[str], draft: Draft) -> None:
    layout = window.layout
    if any(isinstance(s, ir.Function) and s.name in (HOOK, "optimizer_step", "backward") for s in owner.body):
        raise Unplannable("its class has hooks of its own around the step")
    if any(isinstance(n, ir.Call) and getattr(n.function, "name", "") == "all_reduce" for n in walk(owner.body)):
        raise Unplannable("ranks are reduced by hand")
    assert window.function is not None
    draft.after(window.function, "", f"def {HOOK}(self, optimizer):", *[f"{layout.unit}{line}" for line in lines])


__all__ = ["is_driven", "is_returned", "plan_driven", "raw_sums", "step_at_the_end"]
