"""What a method returns when its caller is a library: the loss as a linear form, or what is left unseen of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from accumlint.reading import ir
from accumlint.semantics.attributes import Machine
from accumlint.semantics.calls import Arguments, losses_in
from accumlint.semantics.drivers import start
from accumlint.semantics.machine import Knowledge, Program, Raised, Restart, Stopped
from accumlint.semantics.numbers import Num
from accumlint.semantics.regions import Region
from accumlint.semantics.values import FunctionValue, Items, Opaque, Site, Value

RESTARTS = 12


@dataclass(frozen=True, slots=True)
class Returned:
    """The terms of the returned losses; `hidden` are the access paths of returned values that are no loss yet."""

    terms: tuple[tuple[Site, Num], ...]
    hidden: tuple[str, ...]


def run_method(
    program: Program, owner: ir.Class | None, function: ir.Function, arguments: Mapping[str, Value], *, data: str
) -> Returned | None:
    """What a method returns when a fresh instance of its class is given one microbatch; None if it is not followed.

    Its arguments are unknown but those given; `data` names the parameter that brings the microbatch. Without an owner
    it is a function.
    """
    name, kind = (function.name, "function") if owner is None else (f"{owner.name}.{function.name}", "method")
    region = Region(name, kind, function, owner, frozenset(), function.node)
    knowledge = Knowledge()
    for _ in range(RESTARTS):
        machine = _Recorder(program, knowledge, {}, region.name)
        machine.wanted, machine.given, machine.data = function, arguments, data
        try:
            start(machine, region)
        except Restart:
            continue
        except (Raised, Stopped, RecursionError):
            return None
        return _read(machine.returned) if machine.is_done else None
    return None


def _read(value: Value) -> Returned:
    forms = losses_in(value)
    values = value.items[:1] if isinstance(value, Items) else [value]
    paths = [path for each in values if isinstance(each, Opaque) for path in _paths(each)]
    return Returned(tuple(term for form in forms for term in form.terms), tuple(paths))


def _paths(value: Opaque) -> list[str]:
    """The access path of a value, and of everything it was computed from by arithmetic."""
    found = [value.path]
    for part in value.parts[1] if value.parts is not None else ():
        if isinstance(part, Opaque):
            found += _paths(part)
    return found


class _Recorder(Machine):
    """Gives one function its arguments the first time it is called, and keeps what it returns."""

    wanted: ir.Function
    given: Mapping[str, Value]
    data: str
    returned: Value = None
    is_done = False
    is_running = False

    def call_function(self, callee: FunctionValue, arguments: Arguments, node: ir.NodeId) -> Value:
        if callee.function is not self.wanted or self.is_running or self.setting_up:
            return super().call_function(callee, arguments, node)
        self.is_running = True
        names = {each.name for each in self.wanted.parameters}
        for name in names & self.given.keys():
            arguments.keywords[name] = self.given[name]
        if self.data in names:
            arguments.keywords[self.data] = Opaque(self.data, self.arrival("call"))
        self.returned = super().call_function(callee, arguments, node)
        self.is_done = True
        return self.returned
