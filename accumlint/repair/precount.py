"""Pre-count: collect the window, count its targets, then divide every loss sum by the total before its backward."""

from __future__ import annotations

from accumlint.reading import ir
from accumlint.repair.ahead import write_ahead
from accumlint.repair.boundary import Window, events_of
from accumlint.repair.collect import collect
from accumlint.repair.counts import Leaf
from accumlint.repair.deferred import read_loss, rewrite_loss
from accumlint.repair.distributed import find_averaging
from accumlint.repair.engines import engine_averaging, is_engine, plan_buffered
from accumlint.repair.names import Names
from accumlint.repair.own_counts import plan_own_counts
from accumlint.repair.rewrite import Draft, Unplannable
from accumlint.repair.terms import OWN, term_sites
from accumlint.semantics.trace import BACKWARD, SCALE

FP16 = "raw loss sums can overflow fp16 under the GradScaler, which then skips steps until its scale has come down"


def plan_precount(window: Window, draft: Draft, names: Names) -> Leaf:
    """All edits of the recipe."""
    if events_of(window.events, SCALE):
        raise Unplannable("its gradients are divided by hand, which a pre-count does not need")
    engine = is_engine(window)
    event = next(e for e in window.events if e.kind == BACKWARD)
    averaging = engine_averaging(window) if engine else find_averaging(window, event)
    if len(term_sites(event)) > 1:
        if engine or averaging is not None:
            raise Unplannable(f"{OWN}, on several ranks")
        return plan_own_counts(window, event, draft, names)
    flow, leaf = read_loss(window, draft, names)
    if leaf.setup:
        raise Unplannable("the target of the loss is computed by a call: it cannot be counted before the forward")
    steps = "" if averaging is None else averaging.steps or averaging.divisor
    collection = plan_buffered(window, steps, draft, names) if engine else None
    collection = collection or collect(window, draft, names, steps)
    at = flow.first
    if collection.loop not in window.layout.loops(at) or not isinstance(at, (ir.Assign, ir.Evaluate)):
        raise Unplannable("the loss is not computed in the loop over its microbatches")
    ahead = write_ahead(window.layout, collection.loop, at, leaf.count_text, collection.names, collection.start)
    total = names.free("num_targets" if leaf.exact else "total_weight")
    lines: list[str] = []
    divisor = leaf.guarded(total)
    if averaging is not None:
        lines, divisor = averaging.ahead(leaf, total, window.layout, names)
        averaging.prepare(window.layout, draft)
        if averaging.guard:
            draft.before(window.loops[-1], averaging.guard)
    counted = rewrite_loss(window, flow, leaf, total, draft, names, divisor=divisor)
    collection.write([(total, ahead)], lines)
    leaf.counted = [ahead, leaf.count_text] if counted and ahead != leaf.count_text else [ahead]
    return leaf
