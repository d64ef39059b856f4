"""Classes whose caller is elsewhere: which methods it calls for a microbatch, and who counts the microbatches."""

from __future__ import annotations

from accumlint.reading import ir
from accumlint.reading.prefilter import BACKWARDS
from accumlint.reading.walk import dotted, walk
from accumlint.semantics.machine import Program

CONSTRUCTOR = "__init__"


def steps_beside(program: Program, owner: ir.Class, function: ir.Function) -> list[ir.Function]:
    """The methods that step or clear for a method which only runs the backward, in the order of the file.

    None, if the file itself calls one of them: then it says when.
    """
    methods = [each for each in owner.body if isinstance(each, ir.Function)]
    found = []
    for method in methods:
        words = program.relevance.words(method.body)
        if words & {"step", "zero_grad"} and words.isdisjoint(BACKWARDS) and method.name != CONSTRUCTOR:
            found.append(method)
    names = {f"self.{method.name}" for method in found}
    for node in program.module.nodes:
        called = dotted(node.function) if isinstance(node, ir.Call) else None
        if called is not None and (called in names or called.rpartition(".")[2] == function.name):
            return []
    return found


def counts_itself(owner: ir.Class, function: ir.Function) -> bool:
    """Whether a method counts its own calls, from a number that the constructor gives and nothing else changes."""
    counted = {name for node in walk(function.body) if isinstance(node, ir.Augment) and (name := _own(node.target))}
    started: set[str] = set()
    for method in (each for each in owner.body if isinstance(each, ir.Function) and each is not function):
        for node in walk(method.body):
            targets = node.targets if isinstance(node, ir.Assign) else ()
            names = {_own(target) for target in targets} | (
                {_own(node.target)} if isinstance(node, ir.Augment) else set()
            )
            literal = isinstance(node, ir.Assign) and isinstance(node.value, ir.Constant)
            if counted & names:
                if method.name != CONSTRUCTOR or not literal:
                    return False
                started |= counted & names
    return bool(counted) and started == counted


def _own(target: ir.Expression) -> str:
    """The name of an attribute of `self`, or ""."""
    path = dotted(target) or ""
    return path[5:] if path.startswith("self.") and path.count(".") == 1 else ""
