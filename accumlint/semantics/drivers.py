"""How a region is started: a script, a function, a method of a class that is made first, a step method.

Each kind of entry is driven as its caller would: parameters are unknown, an instance is made by its own `__init__`, a
method that does one microbatch is called 2K+1 times with its state kept.
"""

from __future__ import annotations

import contextlib
import re

from accumlint.apis.language import Const, Role, Row
from accumlint.reading import ir
from accumlint.reading.asked_versions import tests_version
from accumlint.reading.walk import all_statements, walk
from accumlint.semantics.attributes import Machine
from accumlint.semantics.calls import Arguments
from accumlint.semantics.frames import Frame
from accumlint.semantics.machine import LoopState, Raised, Restart, ReturnFrom, Stopped
from accumlint.semantics.regions import ACCUMULATION_SETTINGS, Region, divisors
from accumlint.semantics.siblings import counts_itself, steps_beside
from accumlint.semantics.trace import BACKWARD, STEP
from accumlint.semantics.values import (
    Canonical,
    ClassValue,
    FunctionValue,
    Mapping,
    Object,
    Opaque,
    Value,
)

SET_UP_BUDGET = 15_000


DRIVEN_SETTINGS = (*ACCUMULATION_SETTINGS, "args.gradient_accumulation_steps")
"""Where a driven object finds its number of steps, which is the caller's to set."""
LONGEST_WRITTEN = 16
"""The longest window that is driven as it is written."""
EPOCH_END = "epoch end"
"""The attribute of a framework's class that names the method that it calls at the end of its loader."""


def start(machine: Machine, region: Region) -> None:
    """Run a region on a fresh machine."""
    module = Frame("<module>", origin=machine.program.module)
    body = machine.program.module.body
    if region.kind == "script":
        machine.execute(body, module)
        return
    _set_up(machine, body, module)
    if region.function is None:
        return
    if region.owner is None:
        callee = module.names.get(region.function.name)
        if not isinstance(callee, FunctionValue) or callee.function is not region.function:
            callee = FunctionValue(region.function, module)
        run_entry(machine, callee, region, None)
        return
    owner = _find_class(module, region.owner)
    if owner is None:
        raise Stopped("its class is defined in a place that was not reached")
    member = machine.find_member(owner, region.function.name)
    if not isinstance(member, FunctionValue) or member.function is not region.function:
        member = FunctionValue(region.function, owner.closure, owner=owner)
    instance = _instance(machine, owner)
    bound = machine.bind_method(member, instance)
    if isinstance(bound, FunctionValue):
        row = (
            machine.program.registry.returned(instance.canonical, region.function.name)
            if region.kind == "returned" and (isinstance(instance, Object))
            else None
        )
        after = _after(machine, region, instance)
        if row is not None and isinstance(instance, Object):
            run_protocol(machine, bound, instance, row)
        elif after is not None and isinstance(instance, Object):
            run_protocol(machine, bound, instance, after, returns=False)
        else:
            run_entry(machine, bound, region, instance)


def _set_up(machine: Machine, body: tuple[ir.Statement, ...], module: Frame) -> None:
    """Run the module's own statements leniently: only for the names that they bind."""
    machine.setting_up = True
    whole = machine.budget
    machine.budget = SET_UP_BUDGET
    try:
        for statement in body:
            if isinstance(statement, (ir.For, ir.While)) or _is_main_guard(statement):
                continue
            if "backward" in machine.program.relevance.words_within(statement):
                continue  # it trains: a region of its own, not set-up
            try:
                machine.execute((statement,), module)
            except (Raised, ReturnFrom):
                continue
            except Stopped:
                machine.budget = SET_UP_BUDGET // 4
    finally:
        machine.setting_up = False
        machine.budget = whole
        machine.loops.clear()
        machine.guards.clear()
        machine.stack.clear()
        machine.trace.events.clear()
        machine.trace.logged.clear()
        machine.trace.decisions.clear()
        machine.universe.clear()


def _is_main_guard(statement: ir.Statement) -> bool:
    return (
        isinstance(statement, ir.If)
        and isinstance(statement.test, ir.Compare)
        and isinstance(statement.test.left, ir.Name)
        and statement.test.left.id == "__name__"
    )


def _find_class(module: Frame, wanted: ir.Class) -> ClassValue | None:
    for value in module.names.values():
        if isinstance(value, ClassValue) and value.definition is wanted:
            return value
    return None


def _instance(machine: Machine, owner: ClassValue) -> Value:
    """An instance made by its own `__init__` with unknown arguments; else an object nothing is known of."""
    init = machine.find_member(owner, "__init__")
    if not isinstance(init, FunctionValue):
        return machine.instantiate(owner, Arguments(), -1)
    whole = machine.budget
    machine.budget = SET_UP_BUDGET
    try:
        return machine.instantiate(owner, unknown_arguments(machine, init, skip=1), -1)
    except (Raised, Stopped):
        made = Object(owner.definition.name, None, machine.canonical_base(owner), instance=owner)
        made.modules = frozenset({made.path})
        return made
    finally:
        machine.budget = whole


def unknown_arguments(machine: Machine, callee: FunctionValue, skip: int = 0) -> Arguments:
    """Arguments for an entry: each parameter is unknown, or what its annotation says."""
    arguments = Arguments()
    for place, parameter in enumerate(callee.function.parameters):
        if place < skip or parameter.kind == "*":
            continue
        if parameter.kind == "**":
            arguments.keywords["**"] = Opaque(parameter.name)
            continue
        arguments.keywords[parameter.name] = parameter_value(machine, parameter, callee.closure)
    return arguments


def parameter_value(machine: Machine, parameter: ir.Parameter, closure: Frame) -> Value:
    """An unknown argument; an annotation with a class of the tables gives it that role, a flag keeps its default."""
    if parameter.annotation is not None:
        kind = machine.evaluate(parameter.annotation, closure) if _is_plain(parameter.annotation) else None
        if isinstance(kind, Canonical):
            canonical = machine.program.registry.canonical(kind.name)
            role = machine.program.registry.role_of(canonical)
            if role is not None and role not in (Role.LOADER, Role.MODEL, Role.DATASET):
                made = Object(parameter.name, role, canonical)
                machine.objects[parameter.name] = made
                return made
    default = parameter.default
    if isinstance(default, ir.Constant) and isinstance(default.value, str):
        return default.value
    return Opaque(parameter.name)


def _is_plain(annotation: ir.Expression) -> bool:
    return isinstance(annotation, (ir.Name, ir.Attribute))


def run_entry(machine: Machine, callee: FunctionValue, region: Region, instance: Value) -> None:
    """Call an entry with unknown arguments; a method that does one microbatch is called again and again."""
    skip = 1 if callee.is_bound else 0
    if region.name in machine.knowledge.step_entries:
        _drive(machine, callee, skip, region, instance)
        return
    made = machine.call_function(callee, unknown_arguments(machine, callee, skip), -1)
    if isinstance(made, FunctionValue) and not any(event.kind == "backward" for event in machine.trace.events):
        arguments = unknown_arguments(machine, made)  # a factory: its caller calls what it makes, with data
        for name, value in list(arguments.keywords.items()):
            if isinstance(value, Opaque):
                arguments.keywords[name] = _fresh(machine, name, value, 0)
        machine.call_function(made, arguments, -1)
    if isinstance(instance, Object) and _is_step(machine):
        machine.knowledge.step_entries[region.name] = None
        raise Restart
    if machine.knowledge.again and _is_update(machine):
        with contextlib.suppress(Raised):
            machine.call_function(callee, unknown_arguments(machine, callee, skip), -1)


def run_protocol(machine: Machine, callee: FunctionValue, instance: Object, row: Row, *, returns: bool = True) -> None:
    """Drive a method as its framework does: once a microbatch, after which the framework acts.

    With `returns` it acts on the value of the method, else the method has run the backward itself.
    """
    machine.assume("the Trainer calls it once for each batch of a finite loader")
    for setting in DRIVEN_SETTINGS:
        _free_setting(machine, instance, setting)
    window = max([machine.knowledge.window, *(_written_settings(machine, instance) if returns else ())])
    length = 2 * window + min(2, max(1, window - 1))  # two whole windows and a partial one
    node = _return_node(callee.function) if isinstance(callee.function, ir.Function) else callee.function.node
    for epoch in range(1 if returns else 2):  # a counter of the user's own may go on where the batches start anew
        loop = LoopState(callee.function.node, "driver", is_data=True, driven=length)
        machine.loops.append(loop)
        try:
            for turn in range(length):
                loop.iteration, loop.is_last = epoch * length + turn, turn == length - 1
                arguments = unknown_arguments(machine, callee, 1)
                for name, value in list(arguments.keywords.items()):
                    if isinstance(value, Opaque):
                        arguments.keywords[name] = _fresh(machine, name, value, turn)
                value = machine.call_function(callee, arguments, -1)
                if isinstance(value, Mapping) and "loss" in value.items:
                    value = value.items["loss"]  # beside what is only logged
                given = Arguments([value] if returns else [])
                machine.apply(machine.library_call(row, instance, given, node, None))
            machine.trace.ends.append((len(machine.trace.events), loop.node, loop.key))
        finally:
            machine.loops.pop()
        _end_epoch(machine, instance)


def _end_epoch(machine: Machine, instance: Object) -> None:
    """Call the method of the user's that the framework calls when its loader has ended: it may step for the rest."""
    name = machine.program.registry.attribute(instance.canonical, EPOCH_END)
    if instance.instance is None or not isinstance(name, Const):
        return
    member = machine.find_member(instance.instance, str(name.value))
    if isinstance(member, FunctionValue):
        bound = machine.bind_method(member, instance)
        if isinstance(bound, FunctionValue):
            machine.call_function(bound, unknown_arguments(machine, bound, 1), -1)


def _after(machine: Machine, region: Region, instance: Value) -> Row | None:
    """What the framework does after a method of the user's, unless the method is one for versions that differ."""
    function = region.function
    if region.kind != "method" or function is None or not isinstance(instance, Object):
        return None
    row = machine.program.registry.after(instance.canonical, function.name)
    if row is None or tests_version(function.body, row.call.partition(".")[0]):
        return None
    kinds = [parameter.kind for parameter in function.parameters]
    passed = len(machine.program.registry.signature(row).parameters)
    takes = kinds.count("positional") - 1
    return row if takes >= passed or {"*", "**"} & set(kinds) else None


def _free_setting(machine: Machine, instance: Object, setting: str) -> None:
    """The number of steps is unknown where the class only has the framework's default of it."""
    path, _, name = setting.rpartition(".")
    holder = instance.attributes.get(path) if path else instance
    if isinstance(holder, Object) and holder.attributes.get(name, 1) == 1:
        holder.attributes[name] = Opaque(f"{path}.{name}" if path else name)


def _written_settings(machine: Machine, instance: Object) -> list[int]:
    """The number of steps that the file gives to the framework's trainer and divides by: one number throughout."""
    made = []
    nodes = machine.program.module.nodes
    calls = [node for node in nodes if isinstance(node, ir.Call)]
    divided = {_written_number(machine, value) for value in divisors(nodes)}
    for name in ACCUMULATION_SETTINGS:
        written = [each.value for call in calls for each in call.arguments if each.keyword == name]
        values = {_written_number(machine, value) for value in written}
        number = values.pop() if len(values) == 1 else None
        if number is not None and number in divided and isinstance(instance.attributes.get(name), Opaque):
            instance.attributes[name] = number
            made.append(number)
    return made


def _written_number(machine: Machine, value: ir.Expression) -> int | None:
    """A literal number of steps, or the one that a constant of the module is bound to once."""
    if isinstance(value, ir.Name):
        statements = all_statements(machine.program.module.body, into_scopes=False)
        names = [(t, each.value) for each in statements if isinstance(each, ir.Assign) for t in each.targets]
        bound = [given for target, given in names if isinstance(target, ir.Name) and target.id == value.id]
        value = bound[0] if len(bound) == 1 else value
    known = value.value if isinstance(value, ir.Constant) else None
    return known if type(known) is int and 1 < known <= LONGEST_WRITTEN else None


def _return_node(function: ir.Function) -> ir.NodeId:
    """Where the framework's backward is reported: the last `return` with a value, else the `def`."""
    found = [node.node for node in walk(function.body, into_scopes=False) if isinstance(node, ir.Return) and node.value]
    return found[-1] if found else function.node


def _is_step(machine: Machine) -> bool:
    """Whether the one call so far did one microbatch outside any loop over data, so that a caller must repeat it."""
    backwards = [event for event in machine.trace.events if event.kind == "backward"]
    if not backwards:
        return False
    return len({event.microbatch for event in backwards}) == 1 and not any(event.loops for event in backwards)


def _is_update(machine: Machine) -> bool:
    """Whether the call made one update of each optimizer, from several microbatches, and nothing after it."""
    kinds = {store: [e.kind for e in machine.trace.of_store(store)] for store in machine.trace.stores}
    last = [len(found) - 1 - found[::-1].index(BACKWARD) for found in kinds.values() if BACKWARD in found]
    steps = [[place for place, kind in enumerate(found) if kind == STEP] for found in kinds.values() if STEP in found]
    return bool(steps) and all(len(places) == 1 and places[0] > max(last, default=0) for places in steps)


def _drive(machine: Machine, callee: FunctionValue, skip: int, region: Region, instance: Value) -> None:
    """Call a step method until it has seen whole windows and a partial one; its arguments are new data each time.

    Where it takes no step, the methods of its class that do are called after it: they may know when to.
    """
    machine.trace.guessed = True
    beside: list[FunctionValue] = []
    if region.owner is not None and region.function is not None:
        machine.trace.counts_itself = counts_itself(region.owner, region.function)
        if region.name in machine.knowledge.apart and isinstance(instance, Object):
            beside = _bound(machine, instance, steps_beside(machine.program, region.owner, region.function))
    loop = LoopState(-2, "driver", is_data=True, finite=False)
    machine.loops.append(loop)
    try:
        for turn in range(2 * machine.knowledge.window + 1):
            loop.iteration = turn
            for method in (callee, *beside):
                arguments = unknown_arguments(machine, method, skip)
                for name, value in list(arguments.keywords.items()):
                    if isinstance(value, Opaque):
                        arguments.keywords[name] = _fresh(machine, name, value, turn)
                try:
                    machine.call_function(method, arguments, -1)
                except Raised:
                    return
    finally:
        machine.loops.pop()
    if region.owner is None or region.function is None:
        return
    kinds = {event.kind for event in machine.trace.events}
    if STEP not in kinds and not beside and steps_beside(machine.program, region.owner, region.function):
        machine.knowledge.apart[region.name] = None
        raise Restart
    if beside and not _steps_by_itself(machine):
        raise Stopped("its caller decides when to step")


def _bound(machine: Machine, instance: Object, methods: list[ir.Function]) -> list[FunctionValue]:
    found = []
    for method in methods:
        member = None if instance.instance is None else machine.find_member(instance.instance, method.name)
        bound = machine.bind_method(member, instance) if isinstance(member, FunctionValue) else None
        if isinstance(bound, FunctionValue) and bound.function is method:
            found.append(bound)
    return found


def _steps_by_itself(machine: Machine) -> bool:
    """Whether some turns of the driver take a step and others do not."""
    turns = {iteration for event in machine.trace.events if event.kind == STEP for _, iteration in event.loops[:1]}
    return 0 < len(turns) <= machine.knowledge.window


_PLACE = re.compile(
    r"(batch|micro|global|micro_?batch|train)?_?(idx|index|step|iter|iteration|itr|nb|nr|id|i)|i|it|n_iter", re.I
)
"""Parameters that say which microbatch it is: they count from 0."""


def _fresh(machine: Machine, name: str, value: Opaque, turn: int) -> Value:
    if _PLACE.fullmatch(name):
        return turn
    return Opaque(f"{value.path}#{turn}", machine.arrival("call"))
