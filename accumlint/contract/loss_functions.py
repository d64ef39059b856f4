"""Functions given to a Trainer as `compute_loss_func` that ignore `num_items_in_batch` (ACC105).

A Trainer with such a function divides nowhere, whatever the model takes: a mean of any kind is summed over the window
undivided, over tokens as over rows. A function that does not take the count at all fails at its first call, which needs
no rule.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from accumlint.apis.registry import Registry
from accumlint.contract.classes import FileNames, configured_steps
from accumlint.contract.trainers import METHOD, divides_by_own_count, how_ignored, is_trainer, reads_own_division
from accumlint.contract.verdict import Clause, Evidence, Violation
from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.semantics.machine import Program
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.returned import run_method
from accumlint.semantics.values import Opaque

ARGUMENT = "compute_loss_func"
MODULE = "torch.nn.Module"
FUNCTION = "function "
"""Begins the detail of these violations: what follows is how the count is ignored."""


def check_loss_functions(module: Module, registry: Registry) -> list[Violation]:
    """Every function of the file that a Trainer is given and that returns a mean without the count."""
    names = FileNames.of(module)
    found: dict[ir.NodeId, Violation] = {}
    for given in _given(module, names):
        function = given.function
        if function.node in found or not _makes_trainer(given.call, names, registry):
            continue
        how = how_ignored(function)
        if how in ("", "missing") or reads_own_division(function):
            continue
        evidence = _mean(module, given, registry)
        if evidence is not None:
            found[function.node] = Violation(
                Clause.IGNORED_ITEM_COUNT,
                function.node,
                detail=FUNCTION + how,
                steps=configured_steps(module),
                evidence=(evidence,),
            )
    return list(found.values())


@dataclass(frozen=True, slots=True)
class _Given:
    """A function that a call hands over: of the file, or the method that calling an instance of a class runs.

    `bound` are the parameters that a `partial` has filled.
    """

    call: ir.Call
    function: ir.Function
    owner: ir.Class | None = None
    bound: frozenset[str] = frozenset()


def _given(module: Module, names: FileNames) -> Iterator[_Given]:
    for node in module.nodes:
        if type(node) is not ir.Call:
            continue
        for argument in node.arguments:
            if argument.keyword != ARGUMENT:
                continue
            found = _handed(node, argument.value, names)
            if found is not None:
                yield found


def _handed(call: ir.Call, value: ir.Expression, names: FileNames) -> _Given | None:
    if isinstance(value, ir.Name):
        function = names.functions.get(value.id)
        return None if function is None else _Given(call, function)
    if not isinstance(value, ir.Call) or not isinstance(value.function, (ir.Name, ir.Attribute)):
        return None
    if isinstance(value.function, ir.Name) and (made := names.classes.get(value.function.id)) is not None:
        view = names.view(made)
        method = view.own_method("__call__") or (view.own_method("forward") if MODULE in view.outside else None)
        return None if method is None else _Given(call, method, made)
    first, *rest = (each.value for each in value.arguments if each.keyword is None) if value.arguments else (None,)
    if rest or not isinstance(first, ir.Name) or first.id not in names.functions:
        return None  # a partial that fills parameters by their place leaves the others a place earlier
    bound = frozenset(each.keyword for each in value.arguments if each.keyword is not None)
    return _Given(call, names.functions[first.id], bound=bound)


def _makes_trainer(call: ir.Call, names: FileNames, registry: Registry) -> bool:
    own = names.classes.get(call.function.id) if isinstance(call.function, ir.Name) else None
    if own is not None:
        view = names.view(own)
        return is_trainer(view, registry) and view.method(METHOD) is None
    name = registry.canonical(names.canonical(call.function) or "")
    return name.startswith("transformers.") and name.endswith("Trainer")


def _mean(module: Module, given: _Given, registry: Registry) -> Evidence | None:
    """The mean that the function returns, if it is one that the tables know or that is written out.

    What is divided by something besides, such as a number of steps, is left alone.
    """
    positional = [each.name for each in given.function.parameters if each.kind == "positional"]
    positional = positional[1:] if given.owner is not None else positional
    if len(positional) < 2:
        return None
    program = Program(module, registry, Relevance.of(module.nodes))
    arguments = {name: Opaque(name) for name in given.bound}
    arguments[positional[0]] = Opaque(positional[0], gradient=True)
    returned = run_method(program, given.owner, given.function, arguments, data=positional[1])
    for site, coefficient in returned.terms if returned is not None else ():
        whole = site.reduction in ("mean", "batchmean") and len(set(coefficient.at)) == 1
        if (whole and not coefficient.unknowns) or divides_by_own_count(site, coefficient):
            return Evidence("the Trainer divides nowhere where it is given a loss function", site.node)
    return None
