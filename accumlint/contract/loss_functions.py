"""Functions given to a Trainer as `compute_loss_func` that ignore `num_items_in_batch` (ACC105).

A Trainer with such a function divides nowhere, whatever the model takes: a mean of any kind is summed over the window
undivided, over tokens as over rows. A function that does not take the count at all fails at its first call, which needs
no rule.
"""

from __future__ import annotations

from collections.abc import Iterator

from accumlint.apis.registry import Registry
from accumlint.contract.classes import FileNames, configured_steps
from accumlint.contract.trainers import METHOD, how_ignored, is_trainer, reads_own_division
from accumlint.contract.verdict import Clause, Evidence, Violation
from accumlint.reading import ir
from accumlint.reading.program import Module
from accumlint.reading.walk import walk
from accumlint.semantics.machine import Program
from accumlint.semantics.relevance import Relevance
from accumlint.semantics.returned import run_method
from accumlint.semantics.values import Opaque

ARGUMENT = "compute_loss_func"
FUNCTION = "function "
"""Begins the detail of these violations: what follows is how the count is ignored."""


def check_loss_functions(module: Module, registry: Registry) -> list[Violation]:
    """Every function of the file that a Trainer is given and that returns a mean without the count."""
    names = FileNames.of(module)
    found: dict[ir.NodeId, Violation] = {}
    for call, given in _given(module):
        function = names.functions.get(given)
        if function is None or function.node in found or not _makes_trainer(call, names, registry):
            continue
        how = how_ignored(function)
        if how in ("", "missing") or reads_own_division(function):
            continue
        evidence = _mean(module, function, registry)
        if evidence is not None:
            found[function.node] = Violation(
                Clause.IGNORED_ITEM_COUNT,
                function.node,
                detail=FUNCTION + how,
                steps=configured_steps(module),
                evidence=(evidence,),
            )
    return list(found.values())


def _given(module: Module) -> Iterator[tuple[ir.Call, str]]:
    """Calls that hand a function over, and its name; `partial(name, ...)` is seen through."""
    for node in walk(module.body):
        for argument in node.arguments if isinstance(node, ir.Call) else ():
            if argument.keyword != ARGUMENT or not isinstance(node, ir.Call):
                continue
            value = argument.value
            if isinstance(value, ir.Call) and value.arguments:  # the first argument of a partial
                value = value.arguments[0].value
            if isinstance(value, ir.Name):
                yield node, value.id


def _makes_trainer(call: ir.Call, names: FileNames, registry: Registry) -> bool:
    own = names.classes.get(call.function.id) if isinstance(call.function, ir.Name) else None
    if own is not None:
        view = names.view(own)
        return is_trainer(view, registry) and view.method(METHOD) is None
    name = registry.canonical(names.canonical(call.function) or "")
    return name.startswith("transformers.") and name.endswith("Trainer")


def _mean(module: Module, function: ir.Function, registry: Registry) -> Evidence | None:
    """The mean that the function returns, if it is one that the tables know or that is written out."""
    positional = [each.name for each in function.parameters if each.kind == "positional"]
    if len(positional) < 2:
        return None
    program = Program(module, registry, Relevance.of(module.nodes))
    outputs = Opaque(positional[0], gradient=True)
    returned = run_method(program, None, function, {positional[0]: outputs}, data=positional[1])
    for site, _ in returned.terms if returned is not None else ():
        if site.reduction in ("mean", "batchmean"):
            return Evidence("the Trainer divides nowhere where it is given a loss function", site.node)
    return None
