"""Accelerate: `backward` divides by the constant number of steps, and the processes' gradients are averaged.

What stands in `with accelerator.accumulate(model):` runs for every microbatch; only what Accelerate prepared waits for
the last one of the window. Everything else belongs under `if accelerator.sync_gradients:`.
"""

from __future__ import annotations

import re

from accumlint.contract.verdict import Clause
from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.averaging import Averaging, bound_name
from accumlint.repair.boundary import Window, is_trainer_step
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.trace import Event

ENGINES = re.compile(r"deepspeed|megatron", re.I)


def accelerate_averaging(window: Window, event: Event) -> Averaging:
    """The averaging of a loop whose backward is Accelerate's, or that is gated by it."""
    layout = window.layout
    if ENGINES.search(layout.text):
        raise Unplannable("an engine that Accelerate drives may keep the gradients to itself")
    if "join_uneven_inputs" in layout.text:
        raise Unplannable("processes with fewer batches would skip the sum of the counts")
    gated = _accumulating(window)
    accelerator = layout.flat(gated) if gated is not None else _receiver(window)
    divides = event.form is not None and any("framework" in d.divisor.text for d in event.form.divisions)
    if isinstance(window.backward.function, ir.Attribute) and not window.backward.arguments:
        divides = False  # the loss's own backward: nothing is divided
    torch = bound_name(layout, "torch")
    undone = f"{{scale}} *= {accelerator}.gradient_accumulation_steps  # {accelerator}.backward has divided by it"
    return Averaging(
        f"{accelerator}.num_processes",
        (
            f"{{total}} = {accelerator}.reduce({torch or 'torch'}.tensor({{count}}, device={accelerator}.device))"
            ".item()",
        ),
        (f"{{scale}} = {accelerator}.num_processes / {{total}}", *([undone] if divides else [])),
        f"{accelerator}.sync_gradients" if gated is not None else "",
        _guard(layout, accelerator),
        "" if torch else "import torch",
        f"{accelerator}.gradient_accumulation_steps" if gated is not None else "",
        f"{accelerator}.gradient_accumulation_steps" if divides else "",
    )


GATED = (Clause.CLIP_COUNT, Clause.SCHEDULE, Clause.SCALER)
Statements = dict[Clause, list[ir.Statement]]


def gate_parts(window: Window, by_clause: Statements, draft: Draft) -> Statements:
    """Put what runs for every microbatch under Accelerate's own test, where it stands; returns what is left to do."""
    accelerator = _accumulating(window)
    if accelerator is None:
        return by_clause
    layout = window.layout
    for statement in (s for clause in GATED for s in by_clause.get(clause, [])):
        if isinstance(statement, ir.Assign) and _is_used_elsewhere(window, statement):
            raise Unplannable("what its clip returns is used for every microbatch")
        lines = layout.one_line(statement).split("\n")
        draft.before(
            statement, f"if {layout.flat(accelerator)}.sync_gradients:", *[f"{layout.unit}{line}" for line in lines]
        )
        draft.delete(statement, moved=True)
    return {clause: found for clause, found in by_clause.items() if clause not in GATED}


def _is_used_elsewhere(window: Window, statement: ir.Assign) -> bool:
    names = {n.id for target in statement.targets for n in walk(target) if isinstance(n, ir.Name)}
    own = {id(n) for n in walk(statement)}
    scope = window.layout.scope(window.function)
    return any(isinstance(n, ir.Name) and n.id in names and id(n) not in own for n in walk(scope))


def _guard(layout: Layout, accelerator: str) -> str:
    """Whether it runs under DeepSpeed is decided at the launch: there the engine steps inside backward."""
    quote = "'" if layout.text.count("'") > layout.text.count('"') else '"'
    engines = ", ".join(f"{quote}{name}{quote}" for name in ("DEEPSPEED", "MEGATRON_LM"))
    return f"assert {accelerator}.distributed_type not in ({engines})"


def _accumulating(window: Window) -> ir.Expression | None:
    """The accelerator of `with accelerator.accumulate(model):` around the backward."""
    if is_trainer_step(window) and isinstance(window.backward.function, ir.Attribute):
        return window.backward.function.value
    for parent in window.layout.parents(window.statement):
        if isinstance(parent, ir.Function):
            break
        if isinstance(parent, ir.With):
            for context, _ in parent.items:
                for node in walk(context):
                    called = node.function if isinstance(node, ir.Call) else None
                    if isinstance(called, ir.Attribute) and called.name == "accumulate":
                        return called.value
    return None


def _receiver(window: Window) -> str:
    function = window.backward.function
    owner = function.value if isinstance(function, ir.Attribute) and window.backward.arguments else None
    if isinstance(owner, (ir.Name, ir.Attribute)):
        return window.layout.flat(owner)
    raise Unplannable("which accelerator drives its backward is not plain")
