"""Which library averages the gradients of a loop over ranks, and what its count has to be summed with."""

from __future__ import annotations

import re

from accumlint.reading import ir
from accumlint.reading.walk import dotted, walk
from accumlint.repair.accelerate import accelerate_averaging
from accumlint.repair.averaging import Averaging, bound_name
from accumlint.repair.boundary import Window, find_optimizer
from accumlint.repair.flow import propagated
from accumlint.repair.ranks import text_has_ranks
from accumlint.repair.rewrite import Draft, Layout, Unplannable
from accumlint.semantics.trace import BACKWARD, Event

WRAPPERS = frozenset(
    {"DistributedDataParallel", "DDP", "FullyShardedDataParallel", "FSDP", "fully_shard", "shard_model"}
)
OTHER = re.compile(r"\bhorovod\b|\bcolossalai\b|\bxla_model\b|\bxm\.")
FABRIC = re.compile(r"\bfabric\b")
DECIDED_LATE = "whether the loop runs on several ranks is decided when it runs"
ENGINE = "DeepSpeed keeps the gradients in its engine: they cannot be divided after the backward, only counted before"


def find_averaging(window: Window, event: Event) -> Averaging | None:
    """How the ranks of a loop are averaged; None if it runs on one. Raises Unplannable where it is not plain."""
    text = window.layout.text
    if found := OTHER.search(text):
        raise Unplannable(f"{found.group()} is in sight: how it combines the gradients is not known")
    if re.search(r"\bDataParallel\b", text) and not _computes_loss(window, event):
        raise Unplannable("with DataParallel, a loss that the model computes is a mean of the means of its devices")
    if re.search(r"\baccelerate\b|\bAccelerator\b|\baccelerator\.", text):
        return accelerate_averaging(window, event)
    if re.search(r"\bdeepspeed\b", text):
        raise Unplannable(ENGINE)
    if re.search(r"\blightning\b|\bpytorch_lightning\b", text):
        return _fabric(window)
    if not text_has_ranks(text) and not window.trace.reduced:
        return None
    return _process_group(window)


def _computes_loss(window: Window, event: Event) -> bool:
    """Whether the loss is a library's call in the loop's own function, on outputs that its devices have gathered."""
    layout = window.layout
    sites = [] if event.form is None else [site for site, _ in event.form.terms]
    here = all(
        site.node in layout.holder and layout.function(layout.statement(site.node)) is window.home_function
        for site in sites
    )
    return here and all(site.call.startswith("torch.nn.") for site in sites)


def multiply_by_ranks(window: Window, draft: Draft) -> None:
    """Undo the average over the ranks of a loss that is divided by the count of all of them."""
    layout = window.layout
    averaging = find_averaging(window, next(e for e in window.events if e.kind == BACKWARD))
    if averaging is None or window.trace.sums_ranks:
        raise Unplannable("where its gradients are averaged over the ranks is not in sight")
    argument = propagated(window.backward)
    start, end = layout.range(argument.node)
    text, own = layout.text[start:end], isinstance(argument, (ir.Name, ir.Call, ir.Attribute))
    product = f"{text} * {averaging.world}" if own else f"({text}) * {averaging.world}"
    function = window.backward.function
    receives = isinstance(function, ir.Attribute) and argument is function.value
    while receives and layout.text[start - 1] == "(" and layout.text[end : end + 1] == ")":
        start, end = start - 1, end + 1
    draft.put(start, end, f"({product})" if receives else product)


def move_switch(window: Window, statement: ir.Statement, draft: Draft) -> bool:
    """Switch synchronisation before the forward, which DDP asks, if it is only switched too late."""
    layout = window.layout
    if not isinstance(statement, ir.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    model = dotted(target.value) if isinstance(target, ir.Attribute) else None
    if model is None or getattr(target, "name", "") != "require_backward_grad_sync":
        return False
    place = layout.places[statement.node]
    before = place.block[: place.index]
    forward = next(
        (s for s in before if any(isinstance(n, ir.Call) and dotted(n.function) == model for n in walk(s))), None
    )
    if forward is None:
        return False
    needed = {n.id for n in walk(statement.value) if isinstance(n, ir.Name)}
    between = before[layout.places[forward.node].index :]
    given = {n.id for s in between for t in getattr(s, "targets", ()) for n in walk(t) if isinstance(n, ir.Name)}
    if needed & given:
        raise Unplannable("the test of its switch is computed after the forward")
    draft.before(forward, layout.one_line(statement))
    draft.delete(statement, moved=True)
    return True


def _forwards(statement: ir.Statement, model: str) -> bool:
    return any(isinstance(node, ir.Call) and dotted(node.function) == model for node in walk(statement))


def _fabric(window: Window) -> Averaging:
    function = window.backward.function
    fabric = window.layout.flat(function.value) if isinstance(function, ir.Attribute) else ""
    if not FABRIC.search(fabric) or not window.backward.arguments:
        raise Unplannable("how Lightning averages this backward over the ranks is not plain")
    torch = bound_name(window.layout, "torch")
    quote = "'" if window.layout.text.count("'") > window.layout.text.count('"') else '"'
    return Averaging(
        f"{fabric}.world_size",
        (f"{{total}} = {torch or 'torch'}.tensor({{count}}, device={fabric}.device)",
         f"{{total}} = {fabric}.all_reduce({{total}}, reduce_op={quote}sum{quote}).item()"),
        (f"{{scale}} = {fabric}.world_size / {{total}}",),
        imports="" if torch else "import torch",
    )  # fmt: skip


def _process_group(window: Window) -> Averaging:
    """DistributedDataParallel or FSDP around the model, in the default process group, always or on one condition."""
    layout = window.layout
    wraps = [n for n in walk(layout.module.body) if isinstance(n, ir.Call) and _called(n) in WRAPPERS]
    if not wraps:
        raise Unplannable("several ranks are in sight, and where their gradients are averaged is not")
    whole = [w for w in wraps if not any(isinstance(p, ir.For) for p in layout.parents(layout.statement(w.node)))]
    conditions = {_condition(window, layout.statement(wrap.node)) for wrap in whole or wraps}  # parts are in a loop
    if len(conditions) > 1:
        raise Unplannable(DECIDED_LATE)
    for wrap in wraps:
        if any(a.keyword in ("process_group", "mesh", "device_mesh") or a.star for a in wrap.arguments):
            raise Unplannable("the gradients are averaged over a group of ranks of its own")
    if "register_comm_hook" in layout.text:
        raise Unplannable("a communication hook may change how the gradients are averaged")
    if any(_reduces_gradient(n) for n in _calls(layout)):
        raise Unplannable("the gradients are all-reduced by hand")
    torch = bound_name(layout, "torch")
    dist = bound_name(layout, "torch.distributed") or f"{torch or 'torch'}.distributed"
    (condition,) = conditions
    world, total = f"{dist}.get_world_size()", f"{dist}.all_reduce({{total}})"
    reduce = [total]
    if condition:
        world, reduce = f"({world} if {condition} else 1)", [f"if {condition}:", f"{{unit}}{total}"]
    made = f"{{total}} = {torch or 'torch'}.tensor({{count}}, device={_device_of(window)})"
    return Averaging(
        world,
        (made, *reduce, "{total} = {total}.item()"),
        (f"{{scale}} = {'1' if window.trace.sums_ranks else world} / {{total}}",),
        imports="" if torch else "import torch",
    )


def _condition(window: Window, wrap: ir.Statement) -> str:
    """The plain test under which a model is wrapped, "" if it always is; the loop can ask it again."""
    layout = window.layout
    if _is_optional(wrap):
        raise Unplannable(DECIDED_LATE)
    around = [p for p in layout.parents(wrap) if isinstance(p, (ir.If, ir.Try, ir.Match, ir.While, ir.For))]
    if not around:
        return ""
    test = around[0].test if len(around) == 1 and isinstance(around[0], ir.If) else None
    written = [n for n in walk(layout.module.body) if isinstance(n, (ir.Assign, ir.Augment))]
    name = dotted(test) if test is not None else None
    given = [s for s in written for t in (s.targets if isinstance(s, ir.Assign) else (s.target,)) if dotted(t) == name]
    plain = isinstance(test, (ir.Name, ir.Attribute)) and layout.places[wrap.node].block is getattr(
        around[0], "body", ()
    )
    if not plain or name is None or len(given) > 1 or layout.function(wrap) is not window.function:
        raise Unplannable(DECIDED_LATE)
    return name


def _called(call: ir.Call) -> str:
    return (dotted(call.function) or "").rpartition(".")[2]


def _is_optional(statement: ir.Statement) -> bool:
    return any(isinstance(node, ir.Conditional) for node in walk(statement))


def _calls(layout: Layout) -> list[ir.Call]:
    return [n for n in walk(layout.module.body) if isinstance(n, ir.Call) and _called(n) == "all_reduce"]


def _reduces_gradient(call: ir.Call) -> bool:
    return any(
        isinstance(node, ir.Attribute) and node.name == "grad"
        for argument in call.arguments
        for node in walk(argument.value)
    )


def _device_of(window: Window) -> str:
    """Where the count has to lie for the backend of the ranks: with the parameters."""
    quote = "'" if window.layout.text.count("'") > window.layout.text.count('"') else '"'
    return f"{find_optimizer(window)}.param_groups[0][{quote}params{quote}][0].device"
