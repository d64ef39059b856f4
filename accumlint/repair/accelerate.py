"""Accelerate: `backward` divides by the constant number of steps, and the processes' gradients are averaged."""

from __future__ import annotations

import re

from accumlint.reading import ir
from accumlint.reading.walk import walk
from accumlint.repair.averaging import Averaging, bound_name
from accumlint.repair.boundary import Window
from accumlint.repair.rewrite import Layout, Unplannable
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
        (
            f"{{total}} = {accelerator}.reduce({torch or 'torch'}.tensor({{count}}, device={accelerator}.device))"
            ".item()",
        ),
        (f"{{scale}} = {accelerator}.num_processes / {{total}}", *([undone] if divides else [])),
        f"{accelerator}.sync_gradients" if gated is not None else "",
        _guard(layout, accelerator),
        "" if torch else "import torch",
    )


def _guard(layout: Layout, accelerator: str) -> str:
    """Whether it runs under DeepSpeed is decided at the launch: there the engine steps inside backward."""
    quote = "'" if layout.text.count("'") > layout.text.count('"') else '"'
    engines = ", ".join(f"{quote}{name}{quote}" for name in ("DEEPSPEED", "MEGATRON_LM"))
    return f"assert {accelerator}.distributed_type not in ({engines})"


def _accumulating(window: Window) -> ir.Expression | None:
    """The accelerator of `with accelerator.accumulate(model):` around the backward."""
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
    if isinstance(owner, ir.Name | ir.Attribute):
        return window.layout.flat(owner)
    raise Unplannable("which accelerator drives its backward is not plain")
